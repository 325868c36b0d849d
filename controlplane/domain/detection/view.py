"""What a page shows of a run, taken from its reducer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.domain.detection import outliers, phases, sight, silence, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import NO_ATTEMPT, RankState, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank; `state` is starting, running, silent, stopped, done or dead."""

    rank: int
    node: str
    pid: int | None
    state: str
    last_step: int | None
    phase: str
    compute_ms: float | None
    wait_ms: float | None
    data_ms: float | None
    exit_code: int | None
    signal: int | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node; `verdict` is the class of the finding on its silence, if any.

    `member` is false for the launcher's node; `outlived` says that the run made a step
    after the node must have died, had it died after its last word.
    """

    name: str
    member: bool
    outlived: bool
    last_at: float | None
    silent: bool
    verdict: str
    scheduler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as its reducer sees it; times in seconds since the epoch, None for unknown.

    `rewinds` counts restarts inside the attempt and `rewound_steps` the steps they cost;
    `refused_leaps` counts step numbers that were not believed; `undeclared` suggests
    declaring a phase that shows as long steps at a regular distance.
    """

    run: str
    attempt: int | None
    state: str
    world_size: int
    launcher: str
    ranks: tuple[RankView, ...]
    nodes: tuple[NodeView, ...]
    last_step: int | None
    last_progress_at: float | None
    high_water_step: int
    high_water_at: float | None
    median_step_s: float | None
    samples: int
    waits_for: str
    deadline_s: float | None
    deadline_at: float | None
    k: float
    phase: str
    loss: float | None
    grad_norm: float | None
    tokens_per_s: float | None
    rewinds: int
    rewound_steps: int
    refused_leaps: int
    undeclared: str
    suspicion: str
    troubled: bool
    overdue: bool
    advancing: bool
    blind: bool
    frozen: bool
    held: bool
    began_at: float | None = None

    def as_json(self) -> Mapping[str, Any]:
        """Give the view in JSON types."""
        return asdict(self)


def make(state: RunState, policy: RunPolicy, now: float) -> RunView:
    """Take the view of `state` at `now`."""
    attempt, waited = state.attempt, phases.clock(state, policy, now)
    silent = set(silence.silent_nodes(state, policy, now))
    overdue = waited is not None and waited.overdue(now)
    return RunView(
        run=state.run,
        attempt=attempt.number if attempt else None,
        state=attempt.state if attempt else NO_ATTEMPT,
        world_size=attempt.world_size or len(attempt.ranks) if attempt else 0,
        launcher=state.launcher,
        ranks=tuple(_rank(n, r, silent) for n, r in sorted(attempt.ranks.items())) if attempt else (),
        nodes=_nodes(state, policy, silent),
        last_step=attempt.last_step if attempt else None,
        last_progress_at=waited.since if waited else (attempt.progress_at or None if attempt else None),
        high_water_step=state.high_water_step,
        high_water_at=state.high_water_at,
        median_step_s=steps.median_step_s(state, policy),
        samples=len(steps.baseline(state, policy)),
        waits_for=waited.what if waited else "",
        deadline_s=waited.deadline_s if waited else None,
        deadline_at=waited.since + waited.deadline_s if waited else None,
        k=phases.factor_k(state, policy, now),
        phase=_phase(state),
        loss=state.loss,
        grad_norm=state.grad_norm,
        tokens_per_s=state.tokens_per_s,
        rewinds=attempt.rewinds if attempt else 0,
        rewound_steps=attempt.rewound_steps if attempt else 0,
        refused_leaps=attempt.leaps if attempt else 0,
        undeclared=outliers.advice(state),
        suspicion=state.hang.stage,
        troubled=state.troubled,
        overdue=overdue,
        advancing=_advancing(state, policy, now) and not overdue,
        blind=state.sight.blind,
        frozen=sight.frozen(state.sight, now),
        held=silence.held(state, policy, now),
        began_at=attempt.began_at if attempt else None,
    )


def _advancing(state: RunState, policy: RunPolicy, now: float) -> bool:
    """A recent step shows that every node of the attempt works."""
    attempt = state.live
    if attempt is None or attempt.progress_step is None or state.troubled:
        return False
    return now - attempt.progress_at < phases.step_deadline_s(state, policy, now)


def _rank(number: int, rank: RankState, silent: set[str]) -> RankView:
    return RankView(
        rank=number,
        node=rank.node,
        pid=rank.pid,
        state=_rank_state(rank, silent),
        last_step=rank.step if rank.step is not None else rank.window_step,
        phase=rank.phase.name if rank.phase.open else "",
        compute_ms=rank.compute_ms,
        wait_ms=rank.wait_ms,
        data_ms=rank.data_ms,
        exit_code=rank.exit_code,
        signal=rank.signal,
        error=rank.error,
    )


def _rank_state(rank: RankState, silent: set[str]) -> str:
    if rank.exited:
        return "done" if rank.ended_well else "dead"
    if rank.node in silent:
        return "silent"
    if rank.collected.proc_state == "T":
        return "stopped"
    return "starting" if rank.step is None and rank.window_step is None and not rank.phase.name else "running"


def _nodes(state: RunState, policy: RunPolicy, silent: set[str]) -> tuple[NodeView, ...]:
    members = set(silence.members(state.attempt)) if state.attempt else set()
    return tuple(
        NodeView(
            name=name,
            member=name in members,
            outlived=silence.advanced_since(state, node, policy),
            last_at=node.last_at,
            silent=name in silent,
            verdict=node.verdict,
            scheduler=node.scheduler,
        )
        for name, node in sorted(state.nodes.items())
    )


def _phase(state: RunState) -> str:
    attempt = state.attempt
    if attempt is None:
        return ""
    named = [rank.phase.name for _, rank in sorted(attempt.ranks.items()) if rank.phase.open]
    return named[0] if named else ("train" if attempt.progress_step is not None else "")
