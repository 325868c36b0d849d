"""Keep with an incident who stood where.

The stacks themselves are events, which retention removes; what a person wants to
see weeks later is the picture that they gave. It is bounded (domain.diagnosis.stacks)
however many ranks were asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from controlplane.domain.diagnosis.stacks import StackGroup, Standing, group
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.incidents.models import Incident, StackPicture
from controlplane.incidents.telling import shown

MAX_READ = 10_000
PROC = "proc"
KINDS = ("rank.stack",)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the result of a command says of a rank; both empty where no result came."""

    proc_state: str = ""
    answered: bool = False


def look(run: str, attempt: int, *, since: datetime, asked: Mapping[int, Asked]) -> tuple[StackGroup, ...]:
    """Group what ranks of an attempt said since a moment.

    `asked` are the ranks that were to answer; who is not in it but left a stack counts too.
    """
    told = events.of_attempt(KINDS, run=run, attempt=attempt, since=since, limit=MAX_READ)
    ranks: dict[int, list[StoredEvent]] = {rank: [] for rank in asked}
    for event in told:
        if event.rank is not None:
            ranks.setdefault(event.rank, []).append(event)
    return group(_standing(rank, said, asked.get(rank, Asked())) for rank, said in ranks.items())


def _standing(rank: int, said: Sequence[StoredEvent], asked: Asked) -> Standing:
    """Take the last stack that the rank gave itself, else what was read of it from outside."""
    stacks = [event.data for event in said if event.data.get("tool") != PROC and _frames(event.data)]
    given = [data for data in stacks if data.get("ok") is True]
    best = (given or [data for data in stacks if data.get("tool") == "py-spy"] or [{}])[-1]
    answered = bool(given) or asked.answered
    return Standing(rank=rank, frames=_frames(best), answered=answered, proc_state=asked.proc_state)


def _frames(data: Mapping[str, Any]) -> tuple[str, ...]:
    found = data.get("frames")
    return tuple(str(frame) for frame in found) if isinstance(found, list) else ()


def keep(incident: Incident, attempt: int, groups: Sequence[StackGroup], now: datetime) -> None:
    """Store the picture of an attempt with the incident; a later look replaces an earlier one."""
    kept = {"at": now, "groups": [asdict(one) for one in groups]}
    StackPicture.objects.update_or_create(incident=incident, attempt=attempt, defaults=kept)
    shown(incident)


def stack_groups(incident: Incident, attempt: int | None = None) -> tuple[StackGroup, ...]:
    """Return the kept picture of an attempt (None: of the newest that has one)."""
    pictures = StackPicture.objects.filter(incident=incident).order_by("-attempt")
    picture = (pictures.filter(attempt=attempt) if attempt is not None else pictures).first()
    return tuple(_group(one) for one in picture.groups) if picture else ()


def _group(kept: Mapping[str, Any]) -> StackGroup:
    return StackGroup(
        words=str(kept["words"]), ranks=tuple(kept["ranks"]), count=int(kept["count"]),
        frames=tuple(kept["frames"]), answered=bool(kept["answered"]),
    )  # fmt: skip
