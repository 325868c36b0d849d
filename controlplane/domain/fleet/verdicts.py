"""Tell when verdicts of automation about one node contradict each other (methods 8).

That a suspicion is withdrawn by the very trouble that raised it is a correction and no
contradiction (methods 11.12). But a node that is to blame, is not, and is again within an hour, or that
one trouble convicts and another acquits, is a node about which automation does not know
enough: it then moves the node in neither direction until a person does, or a day is over.
A fresh fatal fault is never held back (methods 11.8).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.fleet.states import USABLE

FRESH_S = 3600.0
FROZEN_S = 24 * 3600.0
BLAMED = frozenset({"suspect", "draining", "quarantined"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`blames` or acquits the node, at a time in seconds since the epoch, in an incident (None outside of one)."""

    at: float
    blames: bool
    incident: int | None


def blames(old: str, new: str) -> bool | None:
    """Say what a move from `old` to `new` judges: it blames, it acquits (False), or it judges nothing (None)."""
    if new in BLAMED:
        return True
    return False if old in BLAMED and new in USABLE else None


def contradicted(said: Verdict, before: Sequence[Verdict]) -> Verdict | None:
    """Return the verdict that `said` contradicts: the newest of those `before` it, as long as that is fresh."""
    newest = max(before, key=lambda verdict: verdict.at, default=None)
    if newest is None or newest.blames == said.blames or said.at - newest.at >= FRESH_S:
        return None
    corrects = not said.blames and said.incident == newest.incident
    return None if corrects else newest
