"""What was done or proposed, in the words of the replay report (wire.md).

Every act of automation is one row that is never changed: the incident page shows it,
a replay compares it, and whoever reviews a night reads it in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Do(StrEnum):
    """The kinds of act; the last three change nothing of run or nodes."""

    RESTART = "restart"
    KILL = "kill"
    REPLACE = "replace"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    ROLLBACK = "rollback"
    DRAIN = "drain"
    HOLD = "hold"
    REFUSE = "refuse"
    CHECK = "check"
    COLLECT = "collect"
    PAGE = "page"
    NOTIFY = "notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act; `args` holds what its kind needs (`step`, `nodes`, `exclude`, `with`, `to`, `skip`).

    `proposed` acts wait for a person. `why` is one clause for the chronicle. `key` tells
    acts of one incident apart: the same key again is the same act.
    """

    do: Do
    why: str
    run: str | None = None
    node: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    proposed: bool = False
    key: str = ""
