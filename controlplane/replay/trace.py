"""Read trace files: one header, then lines in order of arrival (docs/replay.md).

A trace is as untrusted as whatever an agent sends. Every line has a size, every
number a range, and whatever does not fit is an error that names its line; only what
docs/replay.md lists is tolerated.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta, Raw, Struct

from controlplane.replay.errors import TraceError

VERSION = 1
MAX_LINE_BYTES = 4 << 20
MAX_T = 400 * 86_400.0
"""Longest trace, in seconds of the virtual clock."""
MAX_NODES = 16_384
MAX_RUNS = 100
SUFFIX = ".trace.jsonl"

Name = Annotated[str, Meta(min_length=1, max_length=100)]
Names = Annotated[list[Name], Meta(max_length=MAX_NODES)]
Text = Annotated[str, Meta(max_length=4_096)]


class NodeSpec(Struct, kw_only=True):
    """One machine of the header."""

    name: Name
    labels: dict[str, str] = {}
    gpus: list[str] = []


class RunSpec(Struct, kw_only=True):
    """One run of the header; `launcher` is found by itself when it is not named."""

    name: Name
    nodes: Names
    world_size: int = 0
    spares: Names = []
    gpus_per_node: Annotated[int, Meta(ge=0, le=64)] = 0
    step_s: float | None = None
    checkpoint_every_steps: int | None = None
    priorities: dict[str, Any] = {}
    launcher: str = ""


class Header(Struct, kw_only=True):
    """The world of a trace."""

    trace: int
    name: Text
    runs: Annotated[list[RunSpec], Meta(max_length=MAX_RUNS)]
    nodes: Annotated[list[NodeSpec], Meta(max_length=MAX_NODES)]
    policy: dict[str, Any] = {}


class EventLine(Struct, kw_only=True):
    """What one agent said; `at_ms` counts from the trace's zero."""

    at_ms: float
    kind: str
    run: str | None = None
    attempt: int | None = None
    rank: int | None = None
    data: Raw = Raw(b"{}")
    seq: int | None = None


class Beats(Struct, kw_only=True):
    """Heartbeats (or health) of nodes that have nothing to tell; `until` is exclusive."""

    nodes: Names
    every_s: Annotated[float, Meta(ge=0.1)]
    until: float
    data: Raw = Raw(b"{}")


class Steps(Struct, kw_only=True):
    """As many `rank.step` events as `first` to `last`; `jitter` is a relative standard deviation."""

    run: str
    attempt: int
    rank: int
    first: Annotated[int, Meta(ge=0)]
    last: Annotated[int, Meta(ge=0)]
    every_s: Annotated[float, Meta(ge=0.001)]
    duration_ms: float
    jitter: Annotated[float, Meta(ge=0, le=0.3)] = 0.0
    tokens: int | None = None
    loss: float | None = None
    grad_norm: float | None = None


class Operator(Struct, kw_only=True):
    """A person's act."""

    do: str
    name: Text = "operator"
    node: str | None = None
    run: str | None = None
    incident: int | str | None = None
    minutes: float | None = None
    text: Text = ""


class Answers(Struct, kw_only=True):
    """How commands are answered from now on."""

    do: str
    state: str


class Line(Struct, kw_only=True):
    """One line after the header: exactly one thing beside `t`."""

    t: float
    node: str | None = None
    incarnation: str | None = None
    event: EventLine | None = None
    heartbeats: Beats | None = None
    health: Beats | None = None
    steps: Steps | None = None
    operator: Operator | None = None
    answers: Answers | None = None
    end: bool = False


_header = msgspec.json.Decoder(Header)
_line = msgspec.json.Decoder(Line)


class Trace:
    """An open trace; lines are read one at a time."""

    def __init__(self, path: Path) -> None:
        """Open `path` and read its header.

        Raises:
            TraceError: the header does not fit.
            OSError: the file cannot be read.
        """
        self.path = path
        self._file: BinaryIO = path.open("rb")
        self.size = path.stat().st_size
        self.number = 0
        self.header = self._read_header()
        self._nodes = {node.name for node in self.header.nodes}
        self._runs = {run.name for run in self.header.runs}
        self._t = 0.0
        self.ended_at: float | None = None

    @property
    def name(self) -> str:
        """Return the trace's name."""
        return self.header.name

    @property
    def offset(self) -> int:
        """Return how many bytes were read."""
        return self._file.tell()

    def knows(self, node: str) -> bool:
        """Say whether the header has a node of this name."""
        return node in self._nodes

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def lines(self) -> Iterator[tuple[int, Line]]:
        """Give the lines with their numbers, the `end` line last.

        Raises:
            TraceError: a line does not fit, or the end is missing.
        """
        while raw := self._next():
            if self.ended_at is not None:
                raise TraceError(self.number, "comes after the end of the trace")
            yield self.number, self._parsed(raw)
        if self.ended_at is None:
            raise TraceError(self.number, "the trace stops here without its end line; it was cut off")

    def _next(self) -> bytes:
        while raw := self._file.readline(MAX_LINE_BYTES + 1):
            self.number += 1
            if len(raw) > MAX_LINE_BYTES:
                raise TraceError(self.number, f"is longer than {MAX_LINE_BYTES} bytes")
            if raw.strip():
                return raw
        return b""

    def _read_header(self) -> Header:
        raw = self._next()
        header: Header = _decoded(_header, raw or b"null", max(self.number, 1), "is no header of a trace")
        if header.trace != VERSION:
            raise TraceError(self.number, f"trace version {header.trace} is not known here, {VERSION} is")
        _check_header(header, self.number)
        return header

    def _parsed(self, raw: bytes) -> Line:
        line: Line = _decoded(_line, raw, self.number, "cannot be read")
        _one_thing(line, self.number)
        if not 0 <= line.t <= MAX_T:
            raise TraceError(self.number, f"t is {line.t:g}, it must be between 0 and {MAX_T:g} seconds")
        if line.t < self._t:
            raise TraceError(self.number, f"t goes back from {self._t:g} to {line.t:g}")
        self._t = line.t
        self._check_names(line)
        if line.end:
            self.ended_at = line.t
        return line

    def _check_names(self, line: Line) -> None:
        named = [line.node] if line.node is not None else []
        for beats in (line.heartbeats, line.health):
            named += beats.nodes if beats else []
        named += [line.operator.node] if line.operator and line.operator.node else []
        for name in named:
            if name not in self._nodes:
                raise TraceError(self.number, f"node {name} is not in the header")
        runs = [part.run for part in (line.event, line.steps, line.operator) if part is not None]
        for run in runs:
            if run is not None and run not in self._runs:
                raise TraceError(self.number, f"run {run} is not in the header")


def _decoded(decoder: Any, raw: bytes, number: int, words: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        whole = raw.endswith(b"\n") or number == 1
        raise TraceError(number, f"{words if whole else 'is cut off'}: {error}") from None


def _one_thing(line: Line, number: int) -> None:
    things = (line.event, line.heartbeats, line.health, line.steps, line.operator, line.answers, line.end or None)
    if sum(thing is not None for thing in things) != 1:
        raise TraceError(number, "wants exactly one of event, heartbeats, health, steps, operator, answers and end")
    if line.event is not None and line.node is None:
        raise TraceError(number, "an event wants the node that sent it")
    if not math.isfinite(line.t):
        raise TraceError(number, "t must be a finite number")


def _check_header(header: Header, number: int) -> None:
    names = [node.name for node in header.nodes]
    if len(set(names)) != len(names):
        raise TraceError(number, "two nodes of the header have one name")
    if len({run.name for run in header.runs}) != len(header.runs):
        raise TraceError(number, "two runs of the header have one name")
    for run in header.runs:
        wanted = [*run.nodes, *run.spares, *([run.launcher] if run.launcher else [])]
        missing = sorted(set(wanted) - set(names))
        if missing:
            raise TraceError(number, f"run {run.name} names nodes that the header does not have: {', '.join(missing)}")
        if not run.nodes:
            raise TraceError(number, f"run {run.name} has no nodes")
