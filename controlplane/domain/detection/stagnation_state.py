"""What is remembered of the furthest step and the launches since."""

from dataclasses import dataclass


@dataclass(slots=True)
class StagnationState:
    """`step` is the furthest one, `newest` the newest attempt, `launches` those opened since it moved."""

    step: int = -1
    newest: int = -1
    launches: int = 0
    rewinds: int = 0
    serial: int = 0
    found_at: float | None = None
