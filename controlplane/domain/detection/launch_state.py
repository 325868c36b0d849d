"""What is remembered of how an attempt was launched, and of the last one that got ahead."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Launched:
    """What was declared at the launch of one attempt, and what its ranks said afterwards.

    `parameters` are the declared sizes by name; `counted` the number of parameters that
    a place in the model, "tp/pp", holds; `resumed_step` where the lowest rank went on.
    """

    attempt: int = -1
    at: float = 0.0
    nodes: int = 0
    world_size: int = 0
    resume_step: int | None = None
    fingerprint: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    counts_of: dict[int, float] = field(default_factory=dict)
    resumed_rank: int | None = None
    resumed_step: int | None = None
    began_step: int | None = None
    trained: int = 0
    durable: bool = False


@dataclass(slots=True)
class Standing:
    """A finding that was told and has not been taken back."""

    attempt: int = -1
    entity: str = ""
    began: float = 0.0


@dataclass(slots=True)
class LaunchState:
    """The record of the checks at a launch (D-15, D-16)."""

    now: Launched = field(default_factory=Launched)
    proven: dict[str, str] = field(default_factory=dict)
    proven_attempt: int | None = None
    gpus: dict[str, int] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
