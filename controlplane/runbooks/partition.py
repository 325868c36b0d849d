"""Is our sight of the fleet in doubt? Then nothing is restarted or replaced.

Many nodes silent at once have one cause, often between us and them (methods 2).
The fleet's reducer says so as an incident of the fleet; while it is open, every
execution keeps still. It never expires into action by itself.
"""

from controlplane.domain.findings import Stage
from controlplane.incidents.models import Finding, IncidentState

DOUBT = ("correlated_loss", "blind")


def partition() -> str:
    """Return why nothing may be acted on at the moment, empty when there is no doubt."""
    doubts = Finding.objects.filter(incident__run=None, incident__state=IncidentState.OPEN, klass__in=DOUBT)
    standing = doubts.exclude(stage=Stage.CLEARED).order_by("found_at").values_list("sentence", "facts")
    return next((sentence.rstrip(".") for sentence, facts in standing if facts.get("hold", True)), "")
