"""Write the facts of one signal into a run's state.

Every rule here gives the same state when a signal comes twice, late, or out of
order by a little: the newest by the sender's own clock wins, steps only ever raise
the maximum, and a later attempt is never disturbed by an earlier one's news.
"""

import re
from collections.abc import Callable, Mapping

from controlplane.domain.detection import intake_hooks, intake_phases, intake_stacks, leaps, reading, steps
from controlplane.domain.detection.places import node_of, raise_high_water, rank_of
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import (
    COMPLETED,
    ENDED,
    LIVE,
    MAX_NODES,
    RESTING,
    AttemptState,
    DeathState,
    HangState,
    NodeState,
    RunState,
    Told,
)
from controlplane.domain.fleet.scheduling import as_evidence
from controlplane.domain.signals import Signal

EXCEPTION_LINE = re.compile(
    r"^[^\S\n]{0,80}((?:\w{1,80}\.){0,12}\w{0,80}(?:Error|Exception|Interrupt|Timeout|Exit)\w{0,80}): ?(.*)$",
    re.MULTILINE,
)
"""Bounded in each part: the lines are a training's, and whoever prints them must not hold the watch up."""
SOURCE_LINE = re.compile(r'File "([^"\n]{1,300})", line (\d{1,7})')
MAX_TAIL = 4096
MAX_LINE = 120
TROUBLE = frozenset({"failed", "node_fail", "out_of_memory", "boot_fail"})
MEANT = frozenset({"timeout", "preempted"})
"""Ends that the scheduler decided; with a person's cancellation, no fault of anybody's."""
CANCELLED = "cancelled"
FOLLOWS = frozenset({"checkpoint"})
"""Kinds that say nothing of whether their attempt lives: they open none."""
OURS = "middlewatch"
LAUNCHES = 5

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
    current = state.attempt
    if signal.kind not in RUN_RULES or (_follows(signal) and _is_new(state, signal)):
        return False
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


def _follows(signal: Signal) -> bool:
    """Say whether a signal may come while its attempt does not live; a job that waits is such."""
    waits = signal.kind == "scheduler.job" and reading.text(signal.data, "state").upper() == "PENDING"
    return signal.kind in FOLLOWS or waits


def _is_new(state: RunState, signal: Signal) -> bool:
    """Say whether a signal is of an attempt that nobody has shown yet."""
    current = state.attempt
    return current is None or (signal.attempt is not None and signal.attempt > current.number)


def _open(state: RunState, number: int, at: float) -> None:
    state.attempt = AttemptState(number=number, began_at=at)
    state.hang = HangState(serial=state.hang.serial, k=state.hang.k, k_raised_at=state.hang.k_raised_at)
    state.death = DeathState()
    for node in state.nodes.values():
        node.verdict, node.stage = "", ""
    state.told = {key: told for key, told in state.told.items() if not _is_about_one_attempt(state, key, told)}


def _is_about_one_attempt(state: RunState, key: str, told: Told) -> bool:
    return told.attempt is not None and key.startswith(f"{state.run}/{told.attempt}/")


def _history(state: RunState, signal: Signal) -> None:
    """Let late news of an earlier attempt raise the high-water step and nothing else."""
    step = reading.integer(signal.data, "step") if signal.kind == "rank.step" else None
    if step is not None and step <= state.high_water_step + leaps.FREE_STEPS:
        raise_high_water(state, step, signal.received)


def _word(state: RunState, signal: Signal) -> None:
    """Take any event as a sign of life of the node that sent it."""
    sight = state.sight
    if signal.node not in state.nodes and signal.run != state.run:
        return
    sight.last_word = max(signal.received, sight.last_word or signal.received)
    node = node_of(state, signal.node)
    if node is not None:
        node.last_at = max(signal.received, node.last_at or signal.received)


def _attempt_started(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    attempt = state.attempt
    if attempt is None:
        return
    attempt.announced = True
    attempt.scheduler = reading.text(signal.data, "scheduler").lower()
    attempt.job_id = reading.text(signal.data, "job_id")
    attempt.nodes = reading.names(signal.data, "nodes", MAX_NODES) or attempt.nodes
    attempt.world_size = reading.integer(signal.data, "world_size") or attempt.world_size
    attempt.resume_step = reading.integer(reading.mapping(signal.data, "resume"), "step")
    state.launcher = signal.node
    wanted = {*attempt.nodes, signal.node}
    state.nodes = {name: state.nodes.get(name, NodeState()) for name in [*attempt.nodes, signal.node]}
    for rank in attempt.ranks.values():
        if rank.node not in wanted:
            node_of(state, rank.node)


def _attempt_exited(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take the launcher's word; that somebody cancelled the job says more than that its ranks were killed."""
    reason = reading.text(signal.data, "reason").lower() or "failed"
    known = state.attempt.ended_reason if state.attempt is not None else ""
    _end(
        state,
        CANCELLED if (known, reason) == (CANCELLED, "killed") else reason,
        signal.received,
        reading.integer(signal.data, "exit_code"),
    )


def _end(state: RunState, reason: str, at: float, exit_code: int | None) -> None:
    attempt = state.attempt
    if attempt is None or attempt.state == COMPLETED:
        return
    state.death.news += reason != attempt.ended_reason
    attempt.ended_reason, attempt.exit_code = reason, exit_code
    attempt.ended_at = attempt.ended_at or at
    if reason == "completed":
        attempt.state = COMPLETED
    elif attempt.state == LIVE:
        attempt.state = standing(attempt)


def standing(attempt: AttemptState) -> str:
    """Say how an attempt stands that nobody of ours ends."""
    if not attempt.ended_reason:
        return LIVE
    return ENDED if attempt.ended_reason in TROUBLE else RESTING


def _job(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """End the attempt by the word on its own job; a successor's or an earlier job's end is not the attempt's."""
    word, job = reading.text(signal.data, "state").upper(), reading.text(signal.data, "job_id")
    if state.attempt is not None and state.attempt.job_id and job not in ("", state.attempt.job_id):
        return
    if word == "COMPLETED":
        _end(state, "completed", signal.received, 0)
    elif word == "CANCELLED" and reading.text(signal.data, "by") != OURS:
        _end(state, CANCELLED, signal.received, None)
    elif word.lower() in TROUBLE | MEANT:
        _end(state, word.lower(), signal.received, None)


def _started(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    _learn_launch(state, signal)
    rank = rank_of(state, signal)
    if rank is None or signal.at_ms < (rank.started_ms or 0):
        return
    rank.node = reading.text(signal.data, "node") or signal.node
    rank.pid = reading.integer(signal.data, "pid")
    rank.started_ms = signal.at_ms
    rank.exited_pid = None  # in a container the next process has the number of the last one
    node_of(state, rank.node)


def _learn_launch(state: RunState, signal: Signal) -> None:
    """Learn how long the first rank took to show itself."""
    attempt = state.attempt
    if attempt is not None and attempt.announced and not attempt.ranks:
        state.wholes["launch"] = [*state.wholes.get("launch", []), signal.received - attempt.began_at][-LAUNCHES:]


def _exited(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    rank = rank_of(state, signal)
    if rank is None or signal.at_ms < (rank.exited_ms or 0):
        return
    repeated = signal.at_ms == rank.exited_ms
    rank.exited_ms, rank.exited_pid = signal.at_ms, reading.integer(signal.data, "pid")
    rank.exited_at = rank.exited_at if repeated else signal.received
    state.death.news += not repeated
    rank.exit_code = reading.integer(signal.data, "exit_code")
    rank.signal = reading.integer(signal.data, "signal")
    if rank.exit_code is not None and rank.exit_code < 0 and not rank.signal:
        rank.signal = -rank.exit_code
    error = reading.mapping(signal.data, "error")
    if error:
        rank.error = f"{reading.text(error, 'type')}: {reading.text(error, 'message')}"[: reading.MAX_TEXT]
        rank.line = _line(str(error.get("traceback_tail") or "")[-MAX_TAIL:])
    _finish(state, signal.received)


def _line(tail: str) -> str:
    """Give the innermost source line that a traceback names, else its last words."""
    places = SOURCE_LINE.findall(tail)
    if places:
        return f"{places[-1][0].rpartition('/')[2]}:{places[-1][1]}"[:MAX_LINE]
    words = tail.strip().splitlines()
    return words[-1].strip()[:MAX_LINE] if words else ""


def _finish(state: RunState, at: float) -> None:
    """Finished is finished: all ranks ended well, so the attempt completed (methods 11.7)."""
    attempt = state.attempt
    if attempt is None or not attempt.world_size or len(attempt.ranks) < attempt.world_size:
        return
    if all(rank.ended_well for rank in attempt.ranks.values()):
        _end(state, "completed", at, 0)


def _log(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Keep the last exception line of a rank whose launcher wrote no error file."""
    rank = rank_of(state, signal)
    found = EXCEPTION_LINE.findall(str(signal.data.get("text", ""))[-8192:])
    if rank is not None and found and not rank.error:
        rank.error = f"{found[-1][0]}: {found[-1][1]}"[: reading.MAX_TEXT]
        state.death.news += 1


def _scheduler_node(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    node = state.nodes.get(reading.text(signal.data, "node"))
    if node is not None and signal.said_ms >= node.scheduler_ms:
        reason, node.drained_by = reading.text(signal.data, "reason"), reading.text(signal.data, "owner")
        node.scheduler = as_evidence(reading.text(signal.data, "state").lower(), reason, node.drained_by)
        node.scheduler_ms = signal.said_ms


NODE_RULES: Mapping[str, Rule] = {"scheduler.node": _scheduler_node, "command.result": intake_stacks.result}

RUN_RULES: Mapping[str, Rule] = {
    "attempt.started": _attempt_started,
    "attempt.exited": _attempt_exited,
    "scheduler.job": _job,
    "rank.started": _started,
    "rank.exited": _exited,
    "rank.log": _log,
    "rank.step": intake_hooks.step,
    "rank.window": intake_hooks.window,
    "rank.phase": intake_phases.phase,
    "checkpoint": intake_hooks.checkpoint,
    "rank.stack": intake_stacks.stack,
    "rank.collective": intake_stacks.collective,
}
