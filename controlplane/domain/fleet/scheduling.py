"""What a scheduler said last of one of its nodes, and how much of that still counts.

A controller that does not answer says nothing, so its last word grows old; past a few
minutes it is unknown, and on what is unknown nothing is done.
"""

from dataclasses import dataclass

OLD_AFTER_S = 180.0
"""The launcher repeats every state each minute; three that are missing are no accident."""
UNKNOWN = "unknown"
OURS = "middlewatch"
OFFERED = frozenset({"idle", "allocated", "mixed", "completing"})
DRAINED = frozenset({"draining", "drained"})
CLOSED = DRAINED | {"down", "fail", "maint"}
"""States in which the scheduler places nothing new on a node."""
UNFINISHED_KILL = "kill task failed"
"""Slurm's own reason when a step did not end in time; the node itself may be in good order."""


def is_ours(reason: str, owner: str) -> bool:
    """Say whether a mark on a node is Middlewatch's, by its reason or by who gave it."""
    return owner.lower() == OURS or reason.lower().startswith(OURS)


def as_evidence(state: str, reason: str, owner: str) -> str:
    """Give a node's state as it speaks of the machine: that we took it out says nothing of its health."""
    return "fenced" if state in CLOSED and is_ours(reason, owner) else state


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A node as its scheduler last described it; times are seconds since the epoch.

    `since` is when that state was first told, `heard_at` when it was last repeated.
    """

    state: str
    since: float
    heard_at: float
    reason: str = ""
    owner: str = ""

    def at(self, now: float) -> str:
        """Give the state as far as it is known at `now`."""
        return self.state if now - self.heard_at <= OLD_AFTER_S and self.state else UNKNOWN

    @property
    def ours(self) -> bool:
        """Say whether the mark on the node is Middlewatch's."""
        return is_ours(self.reason, self.owner)

    @property
    def by_itself(self) -> bool:
        """Say whether the scheduler drained the node because a step did not end in time."""
        return self.reason.strip().lower() == UNFINISHED_KILL

    @property
    def by_whom(self) -> str:
        """Say in a few words who took the node out and why."""
        who = f" by {self.owner}" if self.owner else ""
        return f"{self.state}{who}" + (f" ({self.reason})" if self.reason else "")
