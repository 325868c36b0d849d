"""Chronicle entries as a page shows them: icon, word, group, and what was late."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.chronicle.models import Entry
from controlplane.domain.chronicle import kinds
from controlplane.domain.chronicle.kinds import Group, Kind
from controlplane.web.present.markdown import html
from controlplane.web.present.words import Badge, span

LATE_AFTER = timedelta(seconds=10)
MAX_PAYLOAD = 4000
GROUPS = ("all", *(group.value for group in Group))
TONES: dict[str, str] = {
    Kind.OPENED: "bad", Kind.CONFIRMED: "bad", Kind.REJECTED: "bad", Kind.EXIT: "bad",
    Kind.FINDING: "warn", Kind.RISEN: "warn", Kind.PROPOSAL: "warn", Kind.QUARANTINE: "warn", Kind.LOSS: "warn",
    Kind.HOLD: "warn", Kind.PAUSE: "warn", Kind.CORRECTION: "warn", Kind.MITIGATED: "warn",
    Kind.CLEARED: "good", Kind.RESOLVED: "good", Kind.PROGRESS: "good", Kind.APPROVED: "good",
    Kind.NOTE: "quiet",
}  # fmt: skip
MARKDOWN_KINDS = frozenset({Kind.NOTE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry, ready for its template; `said` is HTML for notes and plain text for the rest."""

    number: int
    happened: datetime
    badge: Badge
    group: str
    said: str
    markdown: bool
    actor: str
    late: str
    corrects: int | None
    payload: str


def lines(entries: Iterable[Entry]) -> list[Line]:
    """Present entries in the order given."""
    return [line(entry) for entry in entries]


def line(entry: Entry) -> Line:
    """Present one entry."""
    look = kinds.look(entry.kind)
    markdown = entry.kind in MARKDOWN_KINDS
    delay = entry.recorded_at - entry.happened_at
    return Line(
        number=entry.number,
        happened=entry.happened_at,
        badge=Badge(look.icon, look.word, TONES.get(entry.kind, "accent")),
        group=look.group.value,
        said=html(entry.sentence) if markdown else entry.sentence,
        markdown=markdown,
        actor=f"{entry.actor_kind} {entry.actor}".strip(),
        late=f"received {span(delay)} late" if delay > LATE_AFTER else "",
        corrects=entry.corrects.number if entry.corrects else None,
        payload=_payload(entry.data),
    )


def _payload(data: object) -> str:
    if not data:
        return ""
    text = json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= MAX_PAYLOAD else f"{text[:MAX_PAYLOAD]} …"
