"""What is remembered of saved checkpoints, for judging whether launches bring anything."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Saved:
    """One step that was reported as saved: by which attempt first, and whether it still counts."""

    attempt: int = 0
    good: bool = False
    at_ms: int = -1


@dataclass(slots=True)
class SavesState:
    """The newest saved steps of the run."""

    steps: dict[int, Saved] = field(default_factory=dict)
