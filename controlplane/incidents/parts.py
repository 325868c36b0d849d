"""Runs' incidents that are parts of one of the fleet (incidents.shared): people are called for the whole."""

from django.db.models import Q

from controlplane.incidents.models import Incident, IncidentState

GOING = (IncidentState.OPEN, IncidentState.MITIGATED)
PART = Q(run__isnull=False, explained_by__run=None, explained_by__state__in=GOING)
"""Those whose fleet incident is not resolved, as a condition on incidents."""


def is_part(incident: Incident) -> bool:
    """Say whether the fleet's incident that explains this one is going on, so that people are called for that.

    Asks the table: whoever holds the incident may have read it before it became a part.
    """
    return Incident.objects.filter(PART, pk=incident.pk).exists()
