"""Ask one rank everything there is to ask, gentlest way first.

`/proc` always has an answer. Then torch's WorkerServer speaks for the process;
where it cannot say (no server, or the interpreter is locked) `faulthandler` is
asked by signal, and at last py-spy reads the memory from outside. A stopped process
cannot answer, and that is what matters; what py-spy reads of it is shown beside that,
as a stack that the process itself did not give.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from middlewatch_agent.collect import flight, kernel, outside, worker
from middlewatch_agent.collect.frames import Stack
from middlewatch_agent.ranks.status import RankStatus

ANSWER_S = 1.0
"""How long one question may take; a healthy process answers in milliseconds."""
TICKS_S = 0.2
"""Shortest time over which CPU use is looked at."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What is known about one rank."""

    proc_state: str
    answered: bool = False
    stacks: list[Stack] = field(default_factory=list)
    collectives: list[dict[str, Any]] = field(default_factory=list)

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events that tell it, as wire.md."""
        yield from (("rank.stack", stack.as_json()) for stack in self.stacks)
        yield from (("rank.collective", one) for one in self.collectives)


def look(rank: RankStatus, *, stacks: bool, collectives: bool, until: float) -> Found:
    """Look at a rank; `until` is on the monotonic clock. Never raises for a rank that does not answer."""
    before, began = kernel.sample(rank.pid, rank.start_ticks), time.monotonic()
    found = Found(proc_state=before.state)
    if before.exists:
        if collectives:
            _ask_collectives(rank, found, until)
        if stacks:
            mute = before.stopped and collectives and not found.answered
            _ask_stack(rank, found, stopped=before.stopped, mute=mute, until=until)
        time.sleep(max(0.0, min(TICKS_S - (time.monotonic() - began), until - time.monotonic())))
    after = kernel.sample(rank.pid, rank.start_ticks)
    found.proc_state = after.state
    found.stacks.insert(0, kernel.describe(before, after, time.monotonic() - began))
    return found


def _left(until: float) -> float:
    return max(0.05, min(ANSWER_S, until - time.monotonic()))


def _ask_collectives(rank: RankStatus, found: Found, until: float) -> None:
    raw = worker.ask(rank.worker_socket, "fr_trace_json", timeout_s=_left(until))
    if raw is not None:
        found.answered = True
        found.collectives = flight.last_collectives(raw, rank.rank)


def _ask_stack(rank: RankStatus, found: Found, *, stopped: bool, mute: bool, until: float) -> None:
    stack = None if mute else worker.stack(rank.worker_socket, timeout_s=_left(until))
    if stack is None and not stopped:
        stack = outside.by_signal(rank, timeout_s=_left(until)) or outside.by_py_spy(rank, timeout_s=_left(until))
    if stack is None and stopped and (read := outside.by_py_spy(rank, timeout_s=_left(until))):
        found.stacks.append(replace(read, ok=False))
    if stack is None:
        stack = Stack(tool="worker_server", ok=False, frames=("no answer",))
    found.answered = found.answered or stack.ok
    found.stacks.append(stack)
