"""What is remembered of how an attempt was launched, and of the last one that trained."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Launched:
    """What was declared at the launch of one attempt, and what its ranks said afterwards.

    `sizes` are the declared numbers by name; `places` where each rank stands in the model,
    as "tp/pp" unless that is "0/0", `copies` how many data-parallel places were seen;
    `counts` the number of parameters that a rank holds. `resumed_*` is the word of the
    lowest rank that spoke.
    """

    attempt: int = -1
    at: float = 0.0
    nodes: int = 0
    world_size: int = 0
    resume_step: int | None = None
    fingerprint: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    copies: int = 0
    counts: dict[int, float] = field(default_factory=dict)
    resumed_rank: int | None = None
    resumed_step: int | None = None
    resumed_world: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    saved_step: int | None = None


@dataclass(slots=True)
class Standing:
    """A finding that was told under `key` and has not been taken back."""

    key: str = ""
    began: float = 0.0


@dataclass(slots=True)
class LaunchState:
    """The record of the checks at a launch (D-15, D-16); `proven` is the fingerprint that trained last."""

    now: Launched = field(default_factory=Launched)
    proven: dict[str, str] = field(default_factory=dict)
    proven_attempt: int | None = None
    drift: Standing | None = None
    mismatch: Standing | None = None
