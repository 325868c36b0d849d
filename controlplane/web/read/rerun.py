"""Everything that the page of an incident's replay shows, and what its form means."""

from datetime import datetime
from typing import Any

from controlplane.domain.access.policy import least_role
from controlplane.domain.errors import Invalid
from controlplane.incidents.models import Incident
from controlplane.replay import rerun as reruns
from controlplane.replay import settings
from controlplane.replay.models import Rerun, RerunState
from controlplane.web.present import badges, words
from controlplane.web.present import rerun as present
from controlplane.web.present.buttons import May

MAX_ACTS = 200
MAX_LINE = 200


def state(incident: Incident, may: May, now: datetime) -> dict[str, Any]:
    """Read the page for one viewer."""
    row = reruns.newest(incident)
    return {
        "incident": incident,
        "run": incident.run,
        "rerun": row,
        "badge": badges.of(badges.RERUN, row.state) if row else None,
        "under_way": reruns.under_way(row),
        "doing": _doing(row, now),
        "cut": row is not None and row.until - row.since >= reruns.LONGEST,
        "settings": reruns.arguments(row.overrides) if row else [],
        "needs": "" if may("replay") else f"needs the role {least_role('replay')}",
        **(comparison(incident, row) if row and row.state == RerunState.DONE else {}),
    }


def comparison(incident: Incident, row: Rerun) -> dict[str, Any]:
    """Put a finished rerun beside what happened: a sentence, rows, and what else the replay found."""
    report, name = row.report or {}, incident.run.name if incident.run else ""
    zero_t, opened_t = ((moment - row.since).total_seconds() for moment in (incident.began_at, incident.opened_at))
    place = present.matching(report, name, incident.klass, opened_t)
    was = present.happened(incident, incident.acts.order_by("at", "pk")[:MAX_ACTS])
    would = None if place is None else present.replayed(report, place, zero_t)
    return {
        "sentence": present.sentence(was, would, reruns.arguments(row.overrides)),
        "found": would is not None,
        "rows": present.rows(was, would),
        "besides": present.besides(report, place, zero_t),
    }


def _doing(row: Rerun | None, now: datetime) -> str:
    if row is None or not reruns.under_way(row):
        return ""
    if row.state == RerunState.QUEUED:
        return f"waits for a worker since {words.span(now - row.asked_at)}"
    return f"records and replays {words.span(row.until - row.since)}, for {words.span(now - (row.started_at or now))}"


def overrides(text: str) -> dict[str, Any]:
    """Read settings, `name=value` a line; an empty text means none. Raises `Invalid` naming the setting."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > reruns.MAX_SETTINGS:
        raise Invalid("settings", f"must be at most {reruns.MAX_SETTINGS} lines")
    return settings.parsed([_pair(line) for line in lines])


def _pair(line: str) -> str:
    """Give `name=value` without spaces, of which `settings.parsed` will make sense."""
    name, sign, value = (part.strip() for part in line[:MAX_LINE].partition("="))
    if not sign or not name:
        raise Invalid("settings", f"want name=value on each line, not “{line[:MAX_LINE]}”")
    try:
        settings.parsed([f"{name}={value}"])
    except ValueError:
        raise Invalid(name, "must be a number") from None
    return f"{name}={value}"
