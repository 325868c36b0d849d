"""What is remembered of how attempts resumed."""

from dataclasses import dataclass


@dataclass(slots=True)
class ResumeState:
    """The newest word of a rank on what it loaded, and when it came.

    `known` is the first attempt that ever sent such a word, `beside` the attempt that
    began anew beside a checkpoint, `told` the one that was found to mismatch.
    """

    attempt: int = 0
    step: int | None = None
    at: float = 0.0
    known: int | None = None
    beside: int | None = None
    told: int | None = None
    at_found: float = 0.0
