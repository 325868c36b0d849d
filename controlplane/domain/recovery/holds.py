"""What keeps a chosen runbook from starting by itself, in the order of authority.

A finished run, a person's word, a doubt about our own sight or the storage, the
run's switch, and only then the economics of restarting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.domain.chronicle.words import count
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery import modes
from controlplane.domain.recovery.guards import RUNS_AT_ONCE, TokenBucket, backoff_s, within_share
from controlplane.domain.recovery.responses import BACKWARDS, GONE
from controlplane.domain.recovery.runbook import Runbook


class HeldBy(StrEnum):
    """What keeps a chosen runbook from starting by itself."""

    OPERATOR = "operator"
    KILL_SWITCH = "kill switch"
    BREAKER = "breaker"
    PARTITION = "partition"
    STORAGE = "storage"
    WATCH = "watch"
    ASK = "ask"
    RULE = "rule"
    PERSON = "person"
    REPEAT = "repeat"
    LADDER = "ladder"
    LIMITS = "limits"
    SHARE = "share"
    RUNS = "runs"
    BUCKET = "bucket"
    AGE = "age"
    BACKOFF = "backoff"
    BEHIND = "behind"
    """Another runbook has the run and stands still."""


BY_ITSELF = frozenset({HeldBy.BACKOFF, HeldBy.STORAGE})
"""Holds that end by themselves and that no approval shortens: nothing is proposed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The world as re-read at the moment of the choice.

    `exited` says that the newest attempt has ended. `fruitless` counts the newest
    restarts in a row that did not hold (`guards.unsettled`). Of those without a durable
    checkpoint since, `same_failures` have this diagnosis' fingerprint and no node newly
    excluded, and `tries` counts all by rung of the ladder; `last_restart_at` is when the
    last one was launched. `lately_excluded` are nodes that restarts left out within the
    blast window, `runs_touched` counts the other runs that automation acted on within it.
    `kill_switch`, `breaker`, `partition` and `storage` are reasons not to act, each ""
    for none. `modes` holds what people set single runbooks to, `uses` how often each with
    such a limit began lately. `spares` counts free nodes; `neighbours` are the run's
    nodes in the suspect's failure domain, once replacing it alone was tried in vain.
    `age_s` is how long ago the newest of what stands was found.
    """

    now: float
    mode: str
    state: str
    nodes: tuple[str, ...]
    bucket: TokenBucket
    exited: bool = False
    held: bool = False
    held_by: str = ""
    kill_switch: str = ""
    breaker: str = ""
    partition: str = ""
    storage: str = ""
    fruitless: int = 0
    same_failures: int = 0
    tries: Mapping[str, int] = field(default_factory=dict)
    last_restart_at: float | None = None
    lately_excluded: frozenset[str] = frozenset()
    runs_touched: int = 0
    runs_at_once: int = RUNS_AT_ONCE
    spares: int = 1
    modes: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)
    neighbours: tuple[str, ...] = ()
    age_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the guards are asked: may this runbook, leaving out these nodes, start now?

    `asks` says why a person decides in any case, "" where automation may.
    """

    diagnosis: Diagnosis
    runbook: Runbook
    asks: str
    exclude: tuple[str, ...]
    rung: str
    facts: RunFacts
    policy: RunPolicy


Held = tuple[HeldBy, str] | None
Guard = Callable[[Question], Held]


def first_hold(question: Question) -> Held:
    """Ask the guards in order; give the first that objects, or None."""
    return next((held for guard in GUARDS if (held := guard(question))), None)


def earliest(facts: RunFacts, policy: RunPolicy) -> float:
    """When the pause after the last fruitless restart is over, in seconds since the epoch."""
    if facts.last_restart_at is None:
        return facts.now
    return facts.last_restart_at + backoff_s(facts.fruitless, policy)


def _operator(asked: Question) -> Held:
    facts = asked.facts
    return (HeldBy.OPERATOR, f"{facts.held_by or 'an operator'} holds the run") if facts.held else None


def _kill_switch(asked: Question) -> Held:
    return (HeldBy.KILL_SWITCH, asked.facts.kill_switch) if asked.facts.kill_switch else None


def _partition(asked: Question) -> Held:
    return (HeldBy.PARTITION, asked.facts.partition) if asked.facts.partition else None


def _storage(asked: Question) -> Held:
    if not asked.facts.storage or asked.runbook.patient:
        return None
    return HeldBy.STORAGE, f"{asked.facts.storage}; it goes on when the storage answers"


def _mode(asked: Question) -> Held:
    allowed = modes.allowed(asked.facts.mode, asked.runbook, asked.facts.modes.get(asked.runbook.id, ""))
    if allowed.mode == HeldBy.WATCH:
        return HeldBy.WATCH, allowed.why
    return (HeldBy.ASK, allowed.why) if allowed.mode == HeldBy.ASK else None


def _breaker(asked: Question) -> Held:
    return (HeldBy.BREAKER, asked.facts.breaker) if asked.facts.breaker else None


def _rule(asked: Question) -> Held:
    if asked.diagnosis.mode == "act":
        return None
    return HeldBy.RULE, "the rule behind this finding is set to propose only"


def _person(asked: Question) -> Held:
    if not asked.asks or _newly_excludes(asked):
        return None
    return HeldBy.PERSON, asked.asks


def _newly_excludes(asked: Question) -> bool:
    """Leaving out a node that no earlier try left out is a new idea, not a repetition (methods 11.5)."""
    return bool(set(asked.exclude) - asked.facts.lately_excluded)


def fails_again(exclude: tuple[str, ...], facts: RunFacts, policy: RunPolicy) -> bool:
    """Say whether it failed the same way too often, and leaves out no node that it did not leave out before."""
    return facts.same_failures + 1 >= policy.same_failures and not set(exclude) - facts.lately_excluded


def _repeat(asked: Question) -> Held:
    """Stopping what stands still for the second time needs nobody; launching it again does (R-02)."""
    if asked.diagnosis.klass in BACKWARDS or not asked.runbook.launches:
        return None
    if not fails_again(asked.exclude, asked.facts, asked.policy):
        return None
    failures = asked.facts.same_failures + 1
    return HeldBy.REPEAT, f"it failed the same way {failures} times without new durable progress"


def _ladder(asked: Question) -> Held:
    tries = asked.facts.tries.get(asked.rung, 0)
    if tries < asked.policy.rung_tries:
        return None
    return HeldBy.LADDER, f"{tries} launches of this kind brought no durable progress"


def _age(asked: Question) -> Held:
    """Old news never acts: much may have been done by others since."""
    if asked.facts.age_s <= asked.policy.finding_age_s:
        return None
    return HeldBy.AGE, f"it was found {asked.facts.age_s / 3600:.0f} h ago, so a person says whether it still holds"


def _limits(asked: Question) -> Held:
    """The runbook's own limits, as its file sets them."""
    own, used, out = asked.runbook.limits, asked.facts.uses.get(asked.runbook.id, 0), len(asked.exclude)
    if own.uses is not None and used >= own.uses:
        return HeldBy.LIMITS, f"it was used {used} times within {own.uses_s / 3600:g} h, which is its limit"
    if own.nodes is not None and out > own.nodes:
        return HeldBy.LIMITS, f"it would leave out {out} nodes and may leave out {own.nodes}"
    if own.spares is not None and out and asked.facts.spares - out < own.spares:
        return HeldBy.LIMITS, f"fewer than {own.spares} spares would be left"
    return None


def _runs(asked: Question) -> Held:
    """What strikes many runs at once has one cause, and restarting them all is rarely its cure."""
    facts = asked.facts
    if facts.runs_touched < facts.runs_at_once:
        return None
    minutes = asked.policy.blast_window_s / 60
    return HeldBy.RUNS, f"automation acted on {facts.runs_touched} other runs in the last {minutes:g} min"


def _share(asked: Question) -> Held:
    """A lost group may be large where one place or the scheduler confirms it; else a tenth is the limit."""
    facts = asked.diagnosis.facts
    if asked.diagnosis.klass == GONE and (facts.get("domain") or facts.get("confirmed")):
        return None
    out = asked.facts.lately_excluded | set(asked.exclude) if asked.exclude else frozenset()
    if within_share(out, len(asked.facts.nodes), asked.policy):
        return None
    return HeldBy.SHARE, f"more than {asked.policy.max_share:.0%} of the run's nodes would be left out"


def _bucket(asked: Question) -> Held:
    bucket, now = asked.facts.bucket, asked.facts.now
    if bucket.has_token(now):
        return None
    minutes = bucket.next_token_s(now) / 60
    return HeldBy.BUCKET, f"all restarts are spent; the next one is earned in {minutes:.0f} min"


def _backoff(asked: Question) -> Held:
    wait = earliest(asked.facts, asked.policy) - asked.facts.now
    if wait <= 0:
        return None
    vain = count(asked.facts.fruitless, "restart")
    return HeldBy.BACKOFF, f"{vain} in a row did not hold, so the next one waits {wait:.0f} s"


GUARDS: tuple[Guard, ...] = (
    _operator, _kill_switch, _partition, _storage, _mode, _rule, _breaker, _age, _person, _repeat, _ladder, _limits,
    _share, _runs, _bucket, _backoff,
)  # fmt: skip
