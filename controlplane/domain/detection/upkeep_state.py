"""What is remembered of the run's saves, for judging whether they come in time and whole."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Torn:
    """A save that is not whole: how many files it has of how many, None where nobody counted."""

    files: int | None = None
    expected: int | None = None
    found_at: float = 0.0


@dataclass(slots=True)
class UpkeepState:
    """`good_at` is when the newest whole save of step `good_step` was reported; `late_since` while one is overdue.

    `gaps` are the steps between whole saves, newest last.
    """

    good_step: int | None = None
    good_at: float = 0.0
    gaps: list[int] = field(default_factory=list)
    torn: dict[int, Torn] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)
    late_since: float | None = None
    serial: int = 0
