"""Who was told of an incident, for its page."""

from datetime import datetime
from typing import Any

from controlplane.incidents.models import Incident
from controlplane.notify import queries
from controlplane.web.present import notifications as present


def of(incident: Incident, now: datetime) -> dict[str, Any]:
    """Read who was told, when and with what proof, or why nobody was."""
    told = queries.told(f"incident:{incident.pk}")
    return {
        "told": told,
        "told_lines": [present.line(one) for one in told.messages],
        "told_gap": present.gap(told, queries.readiness(now) if told.nobody else ""),
    }
