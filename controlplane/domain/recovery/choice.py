"""Which runbook answers a diagnosis, and what holds it back.

The order of the guards is the order of authority: a finished run, a person's word,
a doubt about our own sight, the run's switch, and only then the economics of
restarting. Whatever holds, the choice itself is told, so a person who decides sees
what automation would have done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.guards import TokenBucket, backoff_s, within_share
from controlplane.domain.recovery.restart_from_checkpoint import RESTART_FROM_CHECKPOINT

RUNBOOK_OF = dict.fromkeys(("crash", "crash_no_exit", "hang", "node_lost", "restore_stall"), RESTART_FROM_CHECKPOINT.id)
"""Class of incident to runbook; a class that is not here is told and not answered."""

OVER = frozenset({"stopped", "completed"})


class HeldBy(StrEnum):
    """What keeps a chosen runbook from starting by itself."""

    OPERATOR = "operator"
    KILL_SWITCH = "kill switch"
    PARTITION = "partition"
    WATCH = "watch"
    ASK = "ask"
    REPEAT = "repeat"
    SHARE = "share"
    BUCKET = "bucket"
    BACKOFF = "backoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The world as re-read at the moment of the choice.

    `fruitless` counts earlier restarts in this incident without a durable checkpoint
    since; `same_failures` those of them with this diagnosis' fingerprint and without a
    node newly excluded; `last_restart_at` is when the last one was launched.
    `partition` is the fleet machine's reason to hold, "" for none.
    """

    now: float
    mode: str
    state: str
    nodes: tuple[str, ...]
    bucket: TokenBucket
    held: bool = False
    held_by: str = ""
    kill_switch: bool = False
    partition: str = ""
    fruitless: int = 0
    same_failures: int = 0
    last_restart_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`runbook` None: nothing to do. `held_by` None: start at once.

    `not_before` is set with `held_by` backoff: start then, without a person.
    """

    runbook: str | None
    why: str
    exclude: tuple[str, ...] = ()
    held_by: str | None = None
    not_before: float | None = None

    @property
    def starts(self) -> bool:
        """Say whether the runbook starts by itself now."""
        return self.runbook is not None and self.held_by is None

    @property
    def waits(self) -> bool:
        """Say whether it starts by itself later."""
        return self.runbook is not None and self.held_by == HeldBy.BACKOFF


Guard = Callable[[Diagnosis, RunFacts, RunPolicy], "tuple[HeldBy, str] | None"]


def choose(diagnosis: Diagnosis, facts: RunFacts, policy: RunPolicy) -> Decision:
    """Choose the runbook for a diagnosis and say what holds it back, if anything does."""
    runbook = RUNBOOK_OF.get(diagnosis.klass)
    if facts.state in OVER:
        return Decision(runbook=None, why=f"the run is {facts.state}")
    if diagnosis.cleared_up:
        return Decision(runbook=None, why="it cleared by itself")
    if runbook is None:
        return Decision(runbook=None, why=f"no runbook answers {diagnosis.klass.replace('_', ' ')}")
    exclude = (diagnosis.act_on,) if diagnosis.act_on else ()
    for guard in GUARDS:
        held = guard(diagnosis, facts, policy)
        if held:
            return _held(runbook, exclude, held, facts, policy)
    return Decision(runbook=runbook, why=_reason(diagnosis), exclude=exclude)


def _held(
    runbook: str, exclude: tuple[str, ...], held: tuple[HeldBy, str], facts: RunFacts, policy: RunPolicy
) -> Decision:
    by, why = held
    not_before = _earliest(facts, policy) if by is HeldBy.BACKOFF else None
    return Decision(runbook=runbook, why=why, exclude=exclude, held_by=by.value, not_before=not_before)


def _reason(diagnosis: Diagnosis) -> str:
    if diagnosis.act_on:
        return f"node {diagnosis.act_on} is left out"
    return "no node stands out, so none is left out"


def _earliest(facts: RunFacts, policy: RunPolicy) -> float:
    if facts.last_restart_at is None:
        return facts.now
    return facts.last_restart_at + backoff_s(facts.fruitless, policy)


def _operator(_diagnosis: Diagnosis, facts: RunFacts, _policy: RunPolicy) -> tuple[HeldBy, str] | None:
    return (HeldBy.OPERATOR, f"{facts.held_by or 'an operator'} holds the run") if facts.held else None


def _kill_switch(_diagnosis: Diagnosis, facts: RunFacts, _policy: RunPolicy) -> tuple[HeldBy, str] | None:
    return (HeldBy.KILL_SWITCH, "automation is switched off") if facts.kill_switch else None


def _partition(_diagnosis: Diagnosis, facts: RunFacts, _policy: RunPolicy) -> tuple[HeldBy, str] | None:
    return (HeldBy.PARTITION, facts.partition) if facts.partition else None


def _mode(_diagnosis: Diagnosis, facts: RunFacts, _policy: RunPolicy) -> tuple[HeldBy, str] | None:
    if facts.mode == HeldBy.WATCH:
        return HeldBy.WATCH, "the run is only watched"
    if facts.mode == HeldBy.ASK:
        return HeldBy.ASK, "the run asks before it acts"
    return None


def _repeat(diagnosis: Diagnosis, facts: RunFacts, policy: RunPolicy) -> tuple[HeldBy, str] | None:
    if diagnosis.act_on or facts.same_failures < policy.same_failures:
        return None
    return HeldBy.REPEAT, f"it failed the same way after {facts.same_failures} restarts without new durable progress"


def _share(diagnosis: Diagnosis, facts: RunFacts, policy: RunPolicy) -> tuple[HeldBy, str] | None:
    exclude = (diagnosis.act_on,) if diagnosis.act_on else ()
    if within_share(exclude, len(facts.nodes), policy):
        return None
    return HeldBy.SHARE, f"more than {policy.max_share:.0%} of the run's nodes would be left out"


def _bucket(_diagnosis: Diagnosis, facts: RunFacts, _policy: RunPolicy) -> tuple[HeldBy, str] | None:
    if facts.bucket.has_token(facts.now):
        return None
    minutes = facts.bucket.next_token_s(facts.now) / 60
    return HeldBy.BUCKET, f"all restarts are spent; the next one is earned in {minutes:.0f} min"


def _backoff(_diagnosis: Diagnosis, facts: RunFacts, policy: RunPolicy) -> tuple[HeldBy, str] | None:
    wait = _earliest(facts, policy) - facts.now
    if wait <= 0:
        return None
    return HeldBy.BACKOFF, f"the last restart brought no durable progress, so the next one waits {wait:.0f} s"


GUARDS: tuple[Guard, ...] = (_operator, _kill_switch, _partition, _mode, _repeat, _share, _bucket, _backoff)
