"""What is remembered of a run's jobs in the scheduler's queue and of notices about its capacity."""

from dataclasses import dataclass, field

PENDING = "PENDING"
AT_WORK = frozenset({"RUNNING", "COMPLETING"})


@dataclass(slots=True)
class Job:
    """One job as the scheduler last told it; `since` is when it began to wait, in seconds since the epoch.

    `at` is when that state was first told, `heard_at` when last.
    """

    state: str = ""
    at: float = 0.0
    heard_at: float = 0.0
    at_ms: int = -1
    since: float | None = None
    reason: str = ""
    by: str = ""
    exclusive: bool = False
    successors: int | None = None


@dataclass(slots=True)
class Notice:
    """An announced end of the allocation, in seconds since the epoch."""

    ends_at: float = 0.0
    at: float = 0.0
    at_ms: int = -1


@dataclass(slots=True)
class Alarm:
    """What was told and still stands."""

    key: str = ""
    klass: str = ""
    began: float = 0.0


@dataclass(slots=True)
class QueueState:
    """The record of the queue's detector (D-17); `standing` by the sort of alarm."""

    serial: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    notice: Notice | None = None
    standing: dict[str, Alarm] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One alarm that holds; `sort` tells alarms of one run apart."""

    sort: str
    klass: str
    severity: str
    began: float
    sentence: str
