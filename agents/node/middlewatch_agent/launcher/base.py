"""What a scheduler adapter must be able to do, whoever really starts the processes.

The agent speaks to this Protocol alone, so that Slurm can take the place of the
local adapter without a change in the commands or in what the control plane sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


class RefusedError(Exception):
    """The request must not be carried out; nothing was changed. The message says why."""


class StartError(Exception):
    """The attempt could not be started; what was begun has been ended again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """Start attempt `attempt` of `run` on `nodes`, resuming at `resume_step` (0: from the beginning).

    `skip` are the first and last step whose batches the workload leaves out; `exclude` are
    nodes that neither it nor a successor of it may be put on.
    """

    run: str
    attempt: int
    nodes: tuple[str, ...]
    resume_step: int
    skip: tuple[int, int] | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What the scheduler knows an attempt by."""

    job_id: str
    world_size: int
    nodes: tuple[str, ...] = ()
    """Where it is, and other than asked: a successor had become this attempt before it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The end of a stop.

    `survivors` are processes proven alive after the last signal. `fenced` are nodes that
    could not tell the end of their processes: the scheduler puts nothing more there.
    """

    survivors: tuple[Mapping[str, Any], ...] = ()
    fenced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event about the scheduler, told again and again as it stands now; `data` as wire.md."""

    kind: str
    run: str | None = None
    attempt: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An `attempt.started` or `attempt.exited` event that is due; `data` as wire.md."""

    kind: str
    run: str
    attempt: int
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of this report: it is told once, also across restarts of the agent."""
        return f"{self.kind}:{self.run}:{self.attempt}"


class Launcher(Protocol):
    """A scheduler adapter. Calls may come from several threads."""

    scheduler: str

    def start(self, request: StartRequest, *, now_ms: int) -> Started:
        """Start an attempt, once however often it is asked. Raises RefusedError or StartError."""

    def stop(self, run: str, attempt: int, *, grace_s: float | None) -> Stopped:
        """Ask, then force every process of an attempt to end, and prove that none is left."""

    def poll(self, *, now_ms: int) -> Sequence[Report | Notice]:
        """Reports that are due and were not yet confirmed by `told`, and what there is to say of the scheduler."""

    def told(self, report: Report) -> None:
        """Note that a report is durable and need not be given again."""

    def live(self) -> bool:
        """Whether any attempt is under way, so that `poll` is worth calling often."""

    def scan(self, run: str, newest: int) -> Sequence[Mapping[str, Any]]:
        """Verdicts over the newest checkpoints of a run, newest first."""

    def take_up(self, *, now_ms: int) -> None:
        """Go on where an earlier life of the agent ended; called once, before any other call."""

    def close(self) -> None:
        """Let go of what the adapter itself holds; attempts live on."""

    def reader(self) -> Mapping[str, Any] | None:
        """How well the scheduler is seen (`ok`, `last_read_age_s`, `why`); None where there is nothing to see."""


@runtime_checkable
class Queue(Protocol):
    """What an adapter adds whose scheduler has a queue and keeps nodes out of use by itself.

    Every call raises StartError where the scheduler does not answer.
    """

    def hold(self, run: str) -> Mapping[str, Any]:
        """Keep the waiting jobs of a run from starting, in their places."""

    def release(self, run: str) -> Mapping[str, Any]:
        """Let them start again."""

    def keep(self, run: str, count: int, exclude: Sequence[str]) -> Mapping[str, Any]:
        """Keep `count` successors queued behind the run's job, none of them on `exclude`."""

    def drain(self, nodes: Sequence[str], reason: str) -> Mapping[str, Any]:
        """Let the scheduler place nothing more on nodes, marked as ours; what somebody else drained is left alone."""

    def resume(self, nodes: Sequence[str]) -> Mapping[str, Any]:
        """Give back nodes that we drained; what somebody else drained is left alone."""
