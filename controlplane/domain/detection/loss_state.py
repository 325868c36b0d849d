"""What the watcher of loss, gradient norm and loss scale remembers.

It begins anew with every attempt, because a rollback changes what is normal; only
the memory of where rollbacks were needed outlives the attempt.
"""

from dataclasses import dataclass, field

SPIKE = "spike"
NAN = "nan"
SCALE = "scale"
DRIFT = "drift"
BELOW = "below"


@dataclass(slots=True)
class Point:
    """What one step said; `broken` when its loss was no finite number."""

    step: int = 0
    at: float = 0.0
    at_ms: int = 0
    loss: float | None = None
    grad: float | None = None
    scale: float | None = None
    skipped: bool = False
    broken: bool = False


@dataclass(slots=True)
class Reference:
    """The usual loss: its median and its robust spread, both in units of the loss."""

    median: float = 0.0
    sigma: float = 0.0


@dataclass(slots=True)
class Watch:
    """One judgement that was made; `stage` "" while there is none.

    `onset_step` is the first step that was out of order; `confirm_at` the moment at
    which companions have had time to speak, None when nothing is to be confirmed by time.
    """

    serial: int = 0
    kind: str = ""
    stage: str = ""
    onset_step: int = 0
    onset_at: float = 0.0
    at: float = 0.0
    loss: float | None = None
    last_loss: float | None = None
    usual: Reference | None = None
    confirm_at: float | None = None
    end_step: int = 0
    sign: str = ""


@dataclass(slots=True)
class Rollback:
    """A later attempt began at `resume_step`, before the onset of a confirmed trouble."""

    onset_step: int = 0
    resume_step: int = 0
    attempt: int = 0


@dataclass(slots=True)
class ScaleState:
    """The course of the loss scale: where the present fall began, and when it lay at its floor."""

    value: float | None = None
    fell_from: float | None = None
    fell_step: int = 0
    was_above: bool = False
    at_floor: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LossState:
    """The record of the numerical detector (D-12).

    `said_broken` is when a rank's own log last spoke of a number that is none;
    `broken_steps` where a rank's row of such losses began, `finite_steps` its last good step.
    """

    attempt: int = -1
    serial: int = 0
    supports: list[str] = field(default_factory=list)
    reporter: int | None = None
    last_step: int | None = None
    last_ms: int = -1
    waiting: dict[int, Point] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    grads: list[float] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    low: int = 0
    broken_row: int = 0
    scale: ScaleState = field(default_factory=ScaleState)
    trouble: Watch = field(default_factory=Watch)
    drift: Watch = field(default_factory=Watch)
    below: Watch = field(default_factory=Watch)
    past: list[Watch] = field(default_factory=list)
    said_broken: dict[int, float] = field(default_factory=dict)
    broken_steps: dict[int, int] = field(default_factory=dict)
    finite_steps: dict[int, int] = field(default_factory=dict)
    unanswered: int | None = None
    rollbacks: list[Rollback] = field(default_factory=list)
