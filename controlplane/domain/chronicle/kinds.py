"""The kinds of chronicle entries, and how each is shown.

A kind decides the icon and the filter under which a reader finds an entry; the
words are chosen where the thing happens, by the functions in `sentences`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an entry tells."""

    OPENED = "opened"
    FINDING = "finding"
    CONFIRMED = "confirmed"
    CLEARED = "cleared"
    RISEN = "risen"
    DECISION = "decision"
    PROPOSAL = "proposal"
    APPROVED = "approved"
    REJECTED = "rejected"
    ACTION = "action"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    LAUNCH = "launch"
    EXIT = "exit"
    PROGRESS = "progress"
    MITIGATED = "mitigated"
    RESOLVED = "resolved"
    LOSS = "loss"
    NOTE = "note"
    ACKNOWLEDGE = "acknowledge"
    HOLD = "hold"
    RESUME = "resume"
    PAUSE = "pause"
    CORRECTION = "correction"


class Group(StrEnum):
    """The filters of the chronicle."""

    DECISIONS = "decisions"
    ACTIONS = "actions"
    SIGNALS = "signals"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class Look:
    """`icon` names a glyph of the page, `word` stands beside it: never colour alone."""

    icon: str
    word: str
    group: Group


LOOKS: dict[str, Look] = {
    Kind.OPENED: Look("alarm", "Opened", Group.SIGNALS),
    Kind.FINDING: Look("eye", "Finding", Group.SIGNALS),
    Kind.CONFIRMED: Look("alarm", "Confirmed", Group.SIGNALS),
    Kind.CLEARED: Look("check", "Cleared", Group.SIGNALS),
    Kind.RISEN: Look("up", "Class changed", Group.SIGNALS),
    Kind.DECISION: Look("fork", "Decision", Group.DECISIONS),
    Kind.PROPOSAL: Look("question", "Proposal", Group.DECISIONS),
    Kind.APPROVED: Look("check", "Approved", Group.DECISIONS),
    Kind.REJECTED: Look("cross", "Rejected", Group.DECISIONS),
    Kind.ACTION: Look("bolt", "Action", Group.ACTIONS),
    Kind.STEP: Look("play", "Step", Group.ACTIONS),
    Kind.CHECKPOINT: Look("disk", "Checkpoint", Group.ACTIONS),
    Kind.QUARANTINE: Look("lock", "Quarantine", Group.ACTIONS),
    Kind.RELEASE: Look("unlock", "Release", Group.ACTIONS),
    Kind.LAUNCH: Look("rocket", "Launch", Group.ACTIONS),
    Kind.EXIT: Look("stop", "Ended", Group.SIGNALS),
    Kind.PROGRESS: Look("step", "Progress", Group.SIGNALS),
    Kind.MITIGATED: Look("check", "Mitigated", Group.DECISIONS),
    Kind.RESOLVED: Look("check", "Resolved", Group.DECISIONS),
    Kind.LOSS: Look("scales", "Loss", Group.SIGNALS),
    Kind.NOTE: Look("pen", "Note", Group.NOTES),
    Kind.ACKNOWLEDGE: Look("hand", "Acknowledged", Group.DECISIONS),
    Kind.HOLD: Look("hand", "Hold", Group.DECISIONS),
    Kind.RESUME: Look("play", "Resume", Group.DECISIONS),
    Kind.PAUSE: Look("pause", "Pause", Group.DECISIONS),
    Kind.CORRECTION: Look("pen", "Correction", Group.NOTES),
}

UNKNOWN = Look("dot", "Entry", Group.NOTES)


def look(kind: str) -> Look:
    """Give the look of a stored kind; one of a later version shows as a plain entry."""
    return LOOKS.get(kind, UNKNOWN)
