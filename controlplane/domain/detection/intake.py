"""Write the facts of one signal into a run's state.

Every rule here gives the same state when a signal comes twice, late, or out of
order by a little: the newest by the sender's own clock wins, steps only ever raise
the maximum, and a later attempt is never disturbed by an earlier one's news.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.domain.detection import reading, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import (
    COMPLETED,
    ENDED,
    LIVE,
    MAX_NODES,
    MAX_RANKS,
    RESTING,
    AttemptState,
    DeathState,
    HangState,
    Member,
    NodeState,
    PhaseMark,
    RankState,
    RunState,
)
from controlplane.domain.signals import Signal

MAX_GROUPS = 64
LEARNED = 16
EXCEPTION_LINE = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Timeout|Exit)\w*): ?(.*)$", re.MULTILINE)
TROUBLE = frozenset({"failed", "node_fail", "timeout", "preempted", "out_of_memory"})
OURS = "middlewatch"

Rule = Callable[[RunState, Signal, RunPolicy], None]


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Write `signal` into `state`; one that concerns neither the run nor its nodes changes nothing."""
    _word(state, signal)
    if signal.run not in (None, state.run):
        return
    rule = NODE_RULES.get(signal.kind)
    if rule is not None:
        rule(state, signal, policy)
    elif signal.run == state.run and _admit(state, signal, policy):
        RUN_RULES[signal.kind](state, signal, policy)


def _admit(state: RunState, signal: Signal, policy: RunPolicy) -> bool:
    """Open the attempt that a signal belongs to, if it is a newer one; refuse an older one's."""
    if signal.kind not in RUN_RULES:
        return False
    current = state.attempt
    number = signal.attempt if signal.attempt is not None else (current.number if current else None)
    if number is None:
        return False
    if current is None or number > current.number:
        steps.remember(state, policy)
        _open(state, number, signal.received)
    elif number < current.number:
        _history(state, signal)
        return False
    return True


def _open(state: RunState, number: int, at: float) -> None:
    state.attempt = AttemptState(number=number, began_at=at)
    state.hang = HangState(serial=state.hang.serial, k=state.hang.k, k_raised_at=state.hang.k_raised_at)
    state.death = DeathState()
    for node in state.nodes.values():
        node.verdict, node.stage = "", ""
    state.told = {key: told for key, told in state.told.items() if told.attempt is None}


def _history(state: RunState, signal: Signal) -> None:
    """Let late news of an earlier attempt raise the high-water step and nothing else."""
    step = reading.integer(signal.data, "step") if signal.kind == "rank.step" else None
    if step is not None:
        _raise_high_water(state, step, signal.received)


def _raise_high_water(state: RunState, step: int, at: float) -> None:
    if step > state.high_water_step:
        state.high_water_step, state.high_water_at = step, at


def _word(state: RunState, signal: Signal) -> None:
    """Take any event as a sign of life of the node that sent it."""
    sight = state.sight
    if signal.node not in state.nodes and signal.run != state.run:
        return
    sight.last_word = max(signal.received, sight.last_word or signal.received)
    node = _node(state, signal.node)
    if node is not None:
        node.last_at = max(signal.received, node.last_at or signal.received)


def _node(state: RunState, name: str) -> NodeState | None:
    if name not in state.nodes and len(state.nodes) < MAX_NODES:
        state.nodes[name] = NodeState()
    return state.nodes.get(name)


def _rank(state: RunState, signal: Signal) -> RankState | None:
    attempt = state.attempt
    if attempt is None or signal.rank is None or not 0 <= signal.rank < MAX_RANKS:
        return None
    rank = attempt.ranks.setdefault(signal.rank, RankState())
    if not rank.node:
        rank.node = signal.node
    return rank


def _attempt_started(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    attempt = state.attempt
    if attempt is None:
        return
    attempt.announced = True
    attempt.nodes = reading.names(signal.data, "nodes", MAX_NODES) or attempt.nodes
    attempt.world_size = reading.integer(signal.data, "world_size") or attempt.world_size
    attempt.resume_step = reading.integer(reading.mapping(signal.data, "resume"), "step")
    state.launcher = signal.node
    wanted = {*attempt.nodes, signal.node}
    state.nodes = {name: state.nodes.get(name, NodeState()) for name in [*attempt.nodes, signal.node]}
    for rank in attempt.ranks.values():
        if rank.node not in wanted:
            _node(state, rank.node)


def _attempt_exited(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    reason = reading.text(signal.data, "reason").lower() or "failed"
    _end(state, reason, signal.received, reading.integer(signal.data, "exit_code"))


def _end(state: RunState, reason: str, at: float, exit_code: int | None) -> None:
    attempt = state.attempt
    if attempt is None or attempt.state == COMPLETED:
        return
    attempt.ended_reason, attempt.exit_code = reason, exit_code
    attempt.ended_at = attempt.ended_at or at
    if reason == "completed":
        attempt.state = COMPLETED
    elif attempt.state == LIVE:
        attempt.state = ENDED if reason in TROUBLE else RESTING


def _job(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    word = reading.text(signal.data, "state").upper()
    if word == "COMPLETED":
        _end(state, "completed", signal.received, 0)
    elif word == "CANCELLED" and reading.text(signal.data, "by") != OURS:
        _end(state, "cancelled", signal.received, None)
    elif word.lower() in TROUBLE:
        _end(state, word.lower(), signal.received, None)


def _started(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    if rank is None or signal.at_ms < (rank.started_ms or 0):
        return
    rank.node = reading.text(signal.data, "node") or signal.node
    rank.pid = reading.integer(signal.data, "pid")
    rank.started_ms = signal.at_ms
    _node(state, rank.node)


def _exited(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    if rank is None or signal.at_ms < (rank.exited_ms or 0):
        return
    repeated = signal.at_ms == rank.exited_ms
    rank.exited_ms = signal.at_ms
    rank.exited_at = rank.exited_at if repeated else signal.received
    rank.exit_code = reading.integer(signal.data, "exit_code")
    rank.signal = reading.integer(signal.data, "signal")
    if rank.exit_code is not None and rank.exit_code < 0 and not rank.signal:
        rank.signal = -rank.exit_code
    error = reading.mapping(signal.data, "error")
    if error:
        rank.error = f"{reading.text(error, 'type')}: {reading.text(error, 'message')}"[: reading.MAX_TEXT]
    _finish(state, signal.received)


def _finish(state: RunState, at: float) -> None:
    """Finished is finished: all ranks ended well, so the attempt completed (methods 11.7)."""
    attempt = state.attempt
    if attempt is None or not attempt.world_size or len(attempt.ranks) < attempt.world_size:
        return
    if all(rank.ended_well for rank in attempt.ranks.values()):
        _end(state, "completed", at, 0)


def _log(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Keep the last exception line of a rank whose launcher wrote no error file."""
    rank = _rank(state, signal)
    found = EXCEPTION_LINE.findall(str(signal.data.get("text", ""))[-8192:])
    if rank is not None and found and not rank.error:
        rank.error = f"{found[-1][0]}: {found[-1][1]}"[: reading.MAX_TEXT]


def _step(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    attempt, rank = state.attempt, _rank(state, signal)
    step = reading.integer(signal.data, "step")
    if attempt is None or rank is None or step is None or step < 0:
        return
    state.instrumented = True
    newest = step > (attempt.last_step if attempt.last_step is not None else -1)
    if newest:
        _show(state, signal.data)
    _raise_high_water(state, step, signal.received)
    steps.sample(attempt, rank, step, signal, policy)
    steps.advance(state, attempt, rank, step, signal)
    _close_phase_by_step(rank, signal)


def _show(state: RunState, data: Mapping[str, Any]) -> None:
    """Keep what the page shows of the newest step."""
    state.loss = reading.number(data, "loss")
    state.grad_norm = reading.number(data, "grad_norm")
    tokens, duration = reading.number(data, "tokens"), reading.number(data, "duration_ms")
    state.tokens_per_s = tokens * 1000 / duration if tokens is not None and duration else None


def _close_phase_by_step(rank: RankState, signal: Signal) -> None:
    """A step after a blocking phase began shows that its end was lost on the way."""
    phase = rank.phase
    if phase.open and phase.name != "train" and signal.at_ms > phase.at_ms:
        phase.open, phase.at_ms, phase.at = False, signal.at_ms, signal.received


def _window(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    last = reading.integer(signal.data, "last_step")
    if rank is None or last is None or last < (rank.window_step or 0):
        return
    state.instrumented = True
    rank.window_step = last
    rank.compute_ms = reading.number(signal.data, "compute_ms")
    rank.wait_ms = reading.number(signal.data, "wait_ms")
    rank.data_ms = reading.number(signal.data, "data_ms")


def _phase(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    name, word = reading.text(signal.data, "phase"), reading.text(signal.data, "state")
    if rank is None or not name or word not in ("begin", "progress", "end"):
        return
    state.instrumented = True
    mark = rank.phase
    if signal.at_ms < mark.at_ms or (
        signal.at_ms == mark.at_ms and (name, word == "end") == (mark.name, not mark.open)
    ):
        return
    same = mark.open and mark.name == name
    if same and word != "begin":
        _learn(state, mark, signal, word)
    if word == "end":
        _close(state.attempt, mark, signal, name, same=same)
        return
    if not same or word == "begin":
        mark = rank.phase = PhaseMark(name=name, began_at=signal.received, began_ms=signal.at_ms)
    mark.open, mark.at, mark.at_ms = True, signal.received, signal.at_ms
    mark.parts += word == "progress"
    mark.deadline_s = reading.number(signal.data, "deadline_s") or mark.deadline_s


def _learn(state: RunState, mark: PhaseMark, signal: Signal, word: str) -> None:
    """Learn how long parts and whole phases take, from the sender's own clock."""
    part = (signal.at_ms - mark.at_ms) / 1000
    if word == "progress" or mark.parts:
        _append(state.parts, mark.name, part, steps.MAX_PARTS)
    if word == "end":
        _append(state.wholes, mark.name, (signal.at_ms - mark.began_ms) / 1000, LEARNED)


def _append(table: dict[str, list[float]], name: str, value: float, limit: int) -> None:
    if name in table or len(table) < LEARNED:
        table[name] = [*table.get(name, []), value][-limit:]


def _close(attempt: AttemptState | None, mark: PhaseMark, signal: Signal, name: str, *, same: bool) -> None:
    if attempt is not None and same and name != "train":
        attempt.intervals = [*attempt.intervals, [mark.began_ms, signal.at_ms]][-steps.MAX_INTERVALS :]
    mark.name, mark.open, mark.at, mark.at_ms = name, False, signal.received, signal.at_ms


def _stack(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    if rank is None:
        return
    found, frames = rank.collected, reading.names(signal.data, "frames", 1)
    found.at = max(found.at, signal.received)
    if reading.text(signal.data, "tool") == "proc":
        words = frames[0].split() if frames else []
        found.proc_state = words[1][:1].upper() if words[:1] == ["state"] and words[1:] else found.proc_state
        return
    answered = signal.data.get("ok") is True
    found.answered = answered or bool(found.answered)
    found.frame = frames[0] if answered and frames else found.frame


def _collective(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = _rank(state, signal)
    group, seq = str(signal.data.get("group", ""))[: reading.MAX_TEXT], reading.integer(signal.data, "seq")
    if rank is None or seq is None or (group not in rank.groups and len(rank.groups) >= MAX_GROUPS):
        return
    known = rank.groups.setdefault(group, Member())
    if seq >= known.seq:
        missing = reading.integers(signal.data, "missing", MAX_RANKS)
        rank.groups[group] = Member(seq=seq, op=reading.text(signal.data, "op"), missing=missing)
        rank.collected.at = max(rank.collected.at, signal.received)


def _result(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Read the answer of a `collect`: who was found in which state, who answered."""
    attempt = state.attempt
    ranks = reading.mapping(reading.mapping(signal.data, "data"), "ranks")
    if attempt is None or (signal.attempt is not None and signal.attempt != attempt.number):
        return
    for key, found in list(ranks.items())[:MAX_RANKS]:
        rank = attempt.ranks.get(int(key)) if str(key).isdecimal() else None
        if rank is None or rank.node != signal.node or not isinstance(found, Mapping):
            continue
        rank.collected.at = max(rank.collected.at, signal.received)
        rank.collected.proc_state = reading.text(found, "proc_state")[:1].upper() or rank.collected.proc_state
        if isinstance(found.get("answered"), bool):
            rank.collected.answered = found["answered"] or bool(rank.collected.answered)


def _scheduler_node(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    node = state.nodes.get(reading.text(signal.data, "node"))
    if node is not None and signal.at_ms >= node.scheduler_ms:
        node.scheduler, node.scheduler_ms = reading.text(signal.data, "state").lower(), signal.at_ms


NODE_RULES: Mapping[str, Rule] = {"scheduler.node": _scheduler_node, "command.result": _result}

RUN_RULES: Mapping[str, Rule] = {
    "attempt.started": _attempt_started,
    "attempt.exited": _attempt_exited,
    "scheduler.job": _job,
    "rank.started": _started,
    "rank.exited": _exited,
    "rank.log": _log,
    "rank.step": _step,
    "rank.window": _window,
    "rank.phase": _phase,
    "rank.stack": _stack,
    "rank.collective": _collective,
}
