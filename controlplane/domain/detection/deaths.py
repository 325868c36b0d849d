"""Find an attempt that died: a rank ended in mid-run, or the launcher says that it failed.

A death is positive evidence, so it is told at once. Its companions' reports follow
within a second or so; they sharpen the blame but must not delay the first action.
An attempt that ended well is never a crash, whatever came before (methods 11.7).
"""

import re
from collections import Counter
from collections.abc import Mapping

from controlplane.domain.detection import asked_to_end, hardware, weights
from controlplane.domain.detection.exits import Exit, judge
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import ENDED, AttemptState, RankState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-03"
MAX_LINES = 48
SILENT_BEATS = 2
LOCAL = "local"
EVERYWHERE = "*"
"""The place of a failure that most ranks shared."""


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Tell a death at once; tell more only after the companions had time to report."""
    attempt = state.live
    if attempt is None:
        return asked_to_end.excused(state, now)
    dead = {number: rank for number, rank in attempt.ranks.items() if rank.died}
    if not dead and attempt.state != ENDED:
        return []
    death = state.death
    if death.found_at is None:
        death.found_at = death.told_at = now
    elif death.news > death.told_news:
        if now < death.told_at + policy.settle_s:
            return []
        death.told_at = now
    death.told_news = death.news
    return [_finding(state, attempt, dead, policy, now)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when companions' reports are taken in, when silence speaks, or when survivors are told of."""
    attempt, death = state.live, state.death
    if attempt is None or death.found_at is None:
        return None
    quiet_s = min(policy.silence_s, SILENT_BEATS * policy.heartbeat_s)
    moments = [death.found_at + no_exit_s(attempt, policy), death.found_at + quiet_s]
    moments += asked_to_end.moments(state, attempt, policy)
    if death.news > death.told_news:
        moments.append(death.told_at + policy.settle_s)
    return min((moment for moment in moments if moment > now), default=None)


def no_exit_s(attempt: AttemptState, policy: RunPolicy) -> float:
    """Give how long survivors may take to end by themselves; our own launcher ends them within moments."""
    return policy.no_exit_local_s if attempt.scheduler == LOCAL else policy.no_exit_s


def _finding(
    state: RunState, attempt: AttemptState, dead: Mapping[int, RankState], policy: RunPolicy, now: float
) -> Finding:
    exits = {number: judge(rank) for number, rank in dead.items()}
    found_at = state.death.found_at or now
    lines = [*_exit_lines(attempt, dead, exits), *_others(state, attempt, dead, policy, now)]
    lines += hardware.testimony(state, policy, now)
    first = _first(dead, exits)
    klass = _klass(attempt, found_at, policy, now)
    _remember(state, attempt, dead, exits, first)
    state.death.klass = klass
    return Finding(
        key=asked_to_end.key_of(state, attempt),
        detector=DETECTOR,
        klass=klass,
        stage=Stage.SUSPECT if asked_to_end.doubtful(state, attempt, policy, now) else Stage.CONFIRMED,
        entity=_entity(attempt, exits, first),
        began=min([found_at, *(rank.exited_at or found_at for rank in dead.values())]),
        at=found_at,
        run=state.run,
        attempt=attempt.number,
        sentence=_sentence(state, attempt, dead, exits, first),
        evidence=tuple(sorted(lines, key=lambda line: (-line.weight, line.entity))[:MAX_LINES]),
        facts=_facts(attempt, dead, exits, first),
    )


def _remember(
    state: RunState, attempt: AttemptState, dead: Mapping[int, RankState], exits: Mapping[int, Exit], first: int | None
) -> None:
    """Keep what makes this failure comparable with those of other attempts."""
    death = state.death
    death.sign = exits[first].sign if first is not None else (attempt.ended_reason or "unknown")
    death.clear = first is not None and exits[first].weight > 0
    death.place = dead[first].node if first is not None else ""
    if _shared(attempt, exits) is not None:
        death.place = EVERYWHERE


def _entity(attempt: AttemptState, exits: Mapping[int, Exit], first: int | None) -> str:
    if _shared(attempt, exits) is not None:
        return "workload"
    return "run" if first is None else f"rank:{first}"


def _klass(attempt: AttemptState, found_at: float, policy: RunPolicy, now: float) -> str:
    """A crash whose survivors do not end is its own class after a while (D-03)."""
    over = attempt.ended_at is not None or now < found_at + no_exit_s(attempt, policy)
    return "crash" if over or not _survivors(attempt) else "crash_no_exit"


def _survivors(attempt: AttemptState) -> list[int]:
    return [number for number, rank in attempt.ranks.items() if not rank.exited]


def _first(dead: Mapping[int, RankState], exits: Mapping[int, Exit]) -> int | None:
    """Give the rank that died first of all whose end is no consequence."""
    causes = {number for number, exit_ in exits.items() if exit_.weight > 0}
    unclear = {number for number, exit_ in exits.items() if exit_.open}
    best = causes or (unclear if len(unclear) == 1 or len(unclear) == len(exits) else set())
    weight = {number: exits[number].weight for number in best}
    return min(best, key=lambda number: (-weight[number], dead[number].exited_at or 0.0, number), default=None)


def _exit_lines(attempt: AttemptState, dead: Mapping[int, RankState], exits: Mapping[int, Exit]) -> list[Evidence]:
    shared = _shared(attempt, exits)
    caused = any(exit_.weight > 0 for exit_ in exits.values())
    earliest = min(dead, key=lambda number: (dead[number].exited_at or 0.0, number), default=None)
    lines = [] if shared is None else [_common(dead, exits, shared)]
    for number, exit_ in sorted(exits.items()):
        weight = exit_.weight
        if exit_.sign == shared:
            continue
        if exit_.open:
            weight = weights.PEER_RESET if caused else weights.FIRST_TO_EXIT if number == earliest else 0.0
        lines.append(_line(number, dead[number], weight, exit_.text, exit_.kind))
    return lines


def _shared(attempt: AttemptState, exits: Mapping[int, Exit]) -> str | None:
    """Give the sign of the exception that most ranks raised alike: the workload's own (methods 7, example b)."""
    signs = Counter(
        exit_.sign for exit_ in exits.values() if exit_.weight == weights.EXCEPTION and not _is_signal(exit_)
    )
    sign, count = signs.most_common(1)[0] if signs else ("", 0)
    return sign if count > 1 and 2 * count >= len(attempt.ranks) else None


def _is_signal(exit_: Exit) -> bool:
    return re.match(r"SIG|signal", exit_.kind) is not None


def _common(dead: Mapping[int, RankState], exits: Mapping[int, Exit], sign: str) -> Evidence:
    numbers = [number for number, exit_ in exits.items() if exit_.sign == sign]
    at = min(dead[number].exited_at or 0.0 for number in numbers)
    text = f"{len(numbers)} ranks {exits[min(numbers)].text}"
    return Evidence(at=at, entity="workload", weight=weights.COMMON_EXCEPTION, text=text, kind="same exception")


def _line(number: int, rank: RankState, weight: float, text: str, kind: str) -> Evidence:
    where = f" on {rank.node}" if rank.node else ""
    text = f"rank {number}{where} {text}"
    return Evidence(at=rank.exited_at or 0.0, entity=f"rank:{number}", weight=weight, text=text, kind=kind)


def _others(
    state: RunState, attempt: AttemptState, dead: Mapping[int, RankState], policy: RunPolicy, now: float
) -> list[Evidence]:
    """Speak of those that say nothing while most of their peers died, and of those that left early."""
    lines = [
        _line(number, rank, weights.LEFT_EARLY, "ended with status 0 while its peers went on", "left early")
        for number, rank in sorted(attempt.ranks.items())
        if rank.ended_well and dead and not any(judge(other).weight > 0 for other in dead.values())
    ]
    missing = [number for number in _survivors(attempt) if _quiet(state, attempt.ranks[number], policy, now)]
    if missing and 2 * len(dead) >= len(attempt.ranks) - len(missing):
        for node in sorted({attempt.ranks[number].node for number in missing}):
            at = state.nodes[node].last_at or now
            text = f"node {node} says nothing while its peers report errors"
            lines.append(Evidence(at=at, entity=f"node:{node}", weight=weights.RANK_SILENT, text=text, kind="silent"))
    return lines


def _quiet(state: RunState, rank: RankState, policy: RunPolicy, now: float) -> bool:
    node = state.nodes.get(rank.node)
    limit = min(policy.silence_s, SILENT_BEATS * policy.heartbeat_s)
    return node is not None and node.last_at is not None and now - node.last_at > limit


def _sentence(
    state: RunState,
    attempt: AttemptState,
    dead: Mapping[int, RankState],
    exits: Mapping[int, Exit],
    first: int | None,
) -> str:
    at = "before its first step" if attempt.last_step is None else f"at step {attempt.last_step}"
    if first is not None and _shared(attempt, exits) is not None:
        return f"{len(dead)} of {len(attempt.ranks)} ranks {exits[first].text} {at}"
    if first is not None:
        where = f" on {dead[first].node}" if dead[first].node else ""
        return f"rank {first}{where} {exits[first].text} {at}"
    if dead:
        none = "its end is not the cause" if len(dead) == 1 else "none of them is the cause"
        return f"{len(dead)} of {len(attempt.ranks)} ranks of run {state.run} died {at}; {none}"
    word = attempt.ended_reason.replace("_", " ")
    return f"attempt {attempt.number} of run {state.run} ended {at}: {word}, and no rank said why"


def _facts(
    attempt: AttemptState, dead: Mapping[int, RankState], exits: Mapping[int, Exit], first: int | None
) -> dict[str, object]:
    sign = exits[first].sign if first is not None else (attempt.ended_reason or "unknown")
    survivors = len(_survivors(attempt))
    return {
        "places": {str(number): rank.node for number, rank in sorted(dead.items())[:MAX_LINES] if rank.node},
        "dead": sorted(dead)[:MAX_LINES],
        "survivors": survivors,
        "job_running": bool(survivors) and attempt.ended_at is None,
        "last_step": attempt.last_step,
        "fingerprint": sign,
        "reason": attempt.ended_reason,
        "exit_code": attempt.exit_code,
        "cause": f"rank {first} {exits[first].text}" if first is not None else "",
        "cause_kind": "" if first is None else _cause_kind(exits[first]),
    }


def _cause_kind(exit_: Exit) -> str:
    """Say whether an end names its own cause, and how: by a signal, by an error, or ("") not at all."""
    if exit_.weight <= 0:
        return ""
    return "signal" if _is_signal(exit_) else "error"
