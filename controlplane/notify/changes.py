"""Write into the fleet's chronicle who changed whom we tell: a page that never came is looked for there.

Part of the transaction of the change, so neither is there without the other.
"""

from collections.abc import Sequence
from datetime import datetime

from controlplane.chronicle import actions as chronicle
from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.chronicle.words import cut, listed
from controlplane.notify.models import Window

FLEET = "fleet"
MOST = 1_000


def told(by: str, what: str, now: datetime, *, kind: str = "note") -> None:
    """Tell that `by` did `what`, a clause without its full stop."""
    chronicle.tell(FLEET, kind, full_stop(cut(f"{by} {what}", MOST)), at=now, now=now, actor_kind="person", actor=by)


def switched(by: str, what: str, now: datetime, *, on: bool) -> None:
    """Tell that somebody switched `what`, as “the rule nights”, on or off."""
    told(by, f"switched {what} {'on' if on else 'off'}", now)


def opened(window: Window, now: datetime) -> None:
    """Tell of whom nobody hears, from when, until when and why."""
    later = f"from {_clock(window.begins_at)} " if window.begins_at > now else ""
    why = f": {window.why}" if window.why else ""
    span = f"{later}until {_clock(window.until)}; nobody is told meanwhile{why}"
    told(window.by, f"opened maintenance of {_runs(window.runs)} {span}", now, kind="pause")


def closed(window: Window, by: str, now: datetime) -> None:
    """Tell that a window ended before its time."""
    told(by, f"ended the maintenance of {_runs(window.runs)}, which was to last until {_clock(window.until)}", now,
         kind="resume")  # fmt: skip


def _runs(names: Sequence[str]) -> str:
    return listed(names) if names else "everything"


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
