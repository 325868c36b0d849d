"""Where an incident is told and which pages show it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.incidents.models import Incident
from controlplane.live import actions as live
from controlplane.runs.book import Book


def stream(incident: Incident) -> str:
    """Return the name of the incident's chronicle, which is also its topic."""
    return f"incident:{incident.pk}"


def shown(incident: Incident) -> None:
    """Bring the open pages of the incident and of its run up to date after the commit."""
    live.touch(stream(incident))
    live.touch(f"run:{incident.run.name}" if incident.run else "fleet")
    if incident.run:
        live.touch("fleet", urgent=False)


def tell_both(
    incident: Incident, kind: str, sentence: str, book: Book, *, key: str,
    at: datetime | None = None, data: Mapping[str, Any] | None = None, actor: str = "",
) -> None:  # fmt: skip
    """Tell one sentence in the incident's chronicle and in that of its run (or of the fleet)."""
    details = {"incident": incident.pk, **(data or {})}
    who = {"actor_kind": "detector", "actor": actor} if actor else {}
    book.tell(stream(incident), kind, sentence, key=key, at=at, data=details, **who)
    home = f"run:{incident.run.name}" if incident.run else "fleet"
    book.tell(home, kind, sentence, key=f"{key}:home", at=at, data=details, **who)
    shown(incident)
