"""Turn the lines of a trace into arrivals in order of time, shorthands written out as they come due.

Nothing is made before its time: a day of heartbeats is a counter on a heap.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from controlplane.replay.errors import TraceError
from controlplane.replay.trace import Answers, Beats, EventLine, Operator, RunSpec, Steps, Trace

MAX_WRITTEN_OUT = 50_000_000
"""Events that one shorthand may stand for."""
CLIP = 3.0
"""Standard deviations at which jitter is cut."""
LOST_S = 15.0
"""A node that beats and says nothing for this long, three beats, answers nobody."""
HEARTBEAT = "node.heartbeat"


@dataclass(slots=True)
class Arrival:
    """Something that reaches the control plane at `t`; `line` is where the trace says so.

    One of `event`, `beat`, `operator` and `answers` is set. A `beat` is the kind and the
    shared `data` of an event that has nothing to tell.
    """

    t: float
    line: int
    node: str = ""
    incarnation: str | None = None
    event: EventLine | None = None
    beat: tuple[str, msgspec.Raw] | None = None
    operator: Operator | None = None
    answers: Answers | None = None


class Feed:
    """The arrivals of a trace, merged from its lines, its shorthands and what is pushed in on the way."""

    def __init__(self, trace: Trace) -> None:
        """Begin at the first line after the header."""
        self._trace = trace
        self._lines = trace.lines()
        self._heap: list[tuple[float, int, Arrival, Iterator[Arrival]]] = []
        self._pushed = 0
        self._ranks: dict[tuple[str, int, int], str] = {}
        self._nodes: dict[tuple[str, int], list[str]] = {}
        self._runs = {run.name: run for run in trace.header.runs}
        self._ahead: tuple[float, int, Any] | None = None
        self._coming: deque[tuple[float, int, Any]] = deque()
        self._all_read = False
        self._beating: set[str] = set()
        self._declared: list[Beats] = []
        self._read()

    @property
    def over(self) -> bool:
        """Say whether nothing is left."""
        return self._ahead is None and not self._heap

    def next_t(self) -> float | None:
        """Give the time of the next arrival, None when there is none."""
        head = self._peek()
        return head[0] if head is not None else None

    def take(self, until: float) -> list[Arrival]:
        """Give everything that arrives up to and at `until`, in order."""
        taken: list[Arrival] = []
        while (head := self._peek()) is not None and head[0] <= until:
            taken += self._pop()
        return taken

    def push(self, arrival: Arrival) -> None:
        """Add an arrival of our own making, after whatever else arrives at its time."""
        self._pushed += 1
        heapq.heappush(self._heap, (arrival.t, 2**40 + self._pushed, arrival, iter(())))

    def answers(self, node: str, t: float) -> bool:
        """Say whether an agent that is asked at `t` still lives, as far as the trace shows.

        A node that has had heartbeats and is not heard again soon, while others are, is gone.
        """
        if node not in self._beating:
            return True
        soon = t + LOST_S
        while not self._all_read and (not self._coming or self._coming[-1][0] <= soon):
            self._read_on()
        if self._all_read and (self._trace.ended_at or 0.0) <= soon:
            return True
        coming = [line for at_t, _, line in (*([self._ahead] if self._ahead else ()), *self._coming) if at_t <= soon]
        heard = {name for beats in self._declared if beats.until > t for name in beats.nodes}
        heard |= {name for line in coming for name in _speakers(line)}
        return not heard or node in heard

    def _peek(self) -> tuple[float, int] | None:
        """Name the time and rank of what comes next; a line goes before what an earlier one stands for."""
        ahead = self._ahead[:2] if self._ahead else None
        heap = self._heap[0][:2] if self._heap else None
        if ahead is None or heap is None:
            return ahead or heap
        return ahead if ahead[0] <= heap[0] else heap

    def _pop(self) -> list[Arrival]:
        if self._heap and (self._ahead is None or self._heap[0][0] < self._ahead[0]):
            _, rank, arrival, rest = heapq.heappop(self._heap)
            self._feed(rank, rest)
            return [arrival]
        assert self._ahead is not None  # noqa: S101 - one of the two had something
        _, number, line = self._ahead
        self._read()
        return self._opened(number, line)

    def _feed(self, rank: int, rest: Iterator[Arrival]) -> None:
        following = next(rest, None)
        if following is not None:
            heapq.heappush(self._heap, (following.t, rank, following, rest))

    def _read(self) -> None:
        if not self._coming:
            self._read_on()
        self._ahead = self._coming.popleft() if self._coming else None

    def _read_on(self) -> None:
        number, line = next(self._lines, (0, None))
        if line is None or line.end:
            next(self._lines, None)  # whatever follows the end is an error
            self._all_read = True
            return
        self._coming.append((line.t, number, line))

    def _opened(self, number: int, line: Any) -> list[Arrival]:
        if line.event is not None:
            if line.event.kind == HEARTBEAT:
                self._beating.add(line.node)
            self._learn(line)
            return [Arrival(line.t, number, line.node, line.incarnation, event=line.event)]
        if line.operator is not None or line.answers is not None:
            return [Arrival(line.t, number, operator=line.operator, answers=line.answers)]
        rest = self._written_out(number, line)
        self._feed(number, rest)
        return []

    def _written_out(self, number: int, line: Any) -> Iterator[Arrival]:
        if line.steps is not None:
            return self._steps(number, line.t, line.steps)
        kind, beats = (HEARTBEAT, line.heartbeats) if line.heartbeats else ("node.health", line.health)
        if kind == HEARTBEAT:
            self._beating.update(beats.nodes)
            self._declared.append(beats)
        if (min(beats.until, 1e9) - line.t) / beats.every_s * len(beats.nodes) > MAX_WRITTEN_OUT:
            raise TraceError(number, f"stands for more than {MAX_WRITTEN_OUT} events")
        return _beats(number, line.t, kind, beats)

    def _steps(self, number: int, begin: float, steps: Steps) -> Iterator[Arrival]:
        if steps.last - steps.first >= MAX_WRITTEN_OUT:
            raise TraceError(number, f"stands for more than {MAX_WRITTEN_OUT} events")
        chance = Random(f"{self._trace.name}:{number}")  # noqa: S311 - the same trace gives the same noise
        node = self._node_of(steps)
        last = begin
        for index, step in enumerate(range(steps.first, steps.last + 1), start=1):
            noise = steps.jitter * max(-CLIP, min(CLIP, chance.gauss(0.0, 1.0))) if steps.jitter else 0.0
            last = max(last, begin + (index + noise) * steps.every_s)
            yield Arrival(last, number, node, event=_step(steps, step, last, noise))

    def _node_of(self, steps: Steps) -> str:
        """Find who speaks for the rank: who said it started, else its place in the attempt, else in the header."""
        run: RunSpec = self._runs[steps.run]
        known = self._ranks.get((steps.run, steps.attempt, steps.rank))
        nodes = self._nodes.get((steps.run, steps.attempt)) or run.nodes
        return known or nodes[min(steps.rank // max(1, run.gpus_per_node), len(nodes) - 1)]

    def _learn(self, line: Any) -> None:
        """Remember which node has which rank, for steps that are only declared."""
        event = line.event
        if event.kind == "rank.started" and event.rank is not None:
            self._ranks[(event.run or "", event.attempt or 0, event.rank)] = line.node
        elif event.kind == "attempt.started":
            named = _plain(event.data).get("nodes")
            known = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
            self._nodes[(event.run or "", event.attempt or 0)] = [n for n in known if self._trace.knows(n)]
            self._ranks.clear()


def _beats(number: int, begin: float, kind: str, beats: Beats) -> Iterator[Arrival]:
    count, t = 0, begin
    shared = (kind, beats.data)
    while t < beats.until:
        for node in beats.nodes:
            yield Arrival(t, number, node, beat=shared)
        count += 1
        t = begin + count * beats.every_s


def _step(steps: Steps, step: int, t: float, noise: float) -> EventLine:
    data: dict[str, Any] = {"step": step, "duration_ms": round(steps.duration_ms * (1 + noise), 3)}
    for name in ("tokens", "loss", "grad_norm"):
        value = getattr(steps, name)
        if value is not None:
            data[name] = value
    return EventLine(
        at_ms=round(t * 1000), kind="rank.step", run=steps.run, attempt=steps.attempt, rank=steps.rank,
        data=msgspec.Raw(msgspec.json.encode(data)),
    )  # fmt: skip


def _speakers(line: Any) -> list[str]:
    """Name the nodes of which a line says something."""
    if line.event is not None:
        return [line.node]
    beats = line.heartbeats or line.health
    return list(beats.nodes) if beats else []


def _plain(data: msgspec.Raw) -> dict[str, Any]:
    found = msgspec.json.decode(data)
    return found if isinstance(found, dict) else {}
