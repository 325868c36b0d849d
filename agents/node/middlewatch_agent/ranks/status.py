"""The status file that a rank's shim keeps in `ranks/`, read as untrusted input."""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
from middlewatch_wire.limits import MAX_AT_MS, MAX_INT4, MAX_NAME
from msgspec import Meta, Struct

from middlewatch_agent.ranks.procfs import Process

MAX_STATUS_BYTES = 64 << 10

Small = Annotated[int, Meta(ge=0, le=MAX_INT4)]
Time = Annotated[int, Meta(ge=0, le=MAX_AT_MS)]
Text = Annotated[str, Meta(max_length=8192)]


class Failure(Struct, kw_only=True, omit_defaults=True):
    """What the rank itself said about its end."""

    type: Text | None = None
    message: Text | None = None
    traceback_tail: Text | None = None


class RankStatus(Struct, kw_only=True, frozen=True):
    """One process of one rank. Both `exit_code` and `signal` None: it lives, or nobody saw its end."""

    run: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    attempt: Small
    rank: Small
    pid: Annotated[int, Meta(ge=1, le=MAX_INT4)]
    local_rank: Small | None = None
    start_ticks: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    started_at_ms: Time | None = None
    log: Text | None = None
    worker_socket: Text | None = None
    shim_pid: Annotated[int, Meta(ge=1, le=MAX_INT4)] | None = None
    gpu_uuid: Text | None = None
    groups: dict[str, int] | None = None
    exit_code: Annotated[int, Meta(ge=-MAX_INT4, le=MAX_INT4)] | None = None
    signal: Annotated[int, Meta(ge=0, le=256)] | None = None
    exited_at_ms: Time | None = None
    error: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether the shim wrote down an end."""
        return self.exit_code is not None or self.signal is not None or self.exited_at_ms is not None

    @property
    def key(self) -> str:
        """Name this one process for ever."""
        return f"{self.run}.{self.attempt}.{self.rank}.{self.start_ticks or self.started_at_ms or self.pid}"

    def started(self, node: str) -> dict[str, Any]:
        """Give the event `rank.started`."""
        data: dict[str, Any] = {"node": node, "local_rank": self.local_rank, "pid": self.pid}
        data |= {"gpu_uuid": self.gpu_uuid, "groups": self.groups}
        return self._event("rank.started", self.started_at_ms, data)

    def exited(self, node: str) -> dict[str, Any]:
        """Give the event `rank.exited`; `exit_code` and `signal` None when nobody saw the end."""
        data = {"node": node, "local_rank": self.local_rank, "pid": self.pid}
        error = msgspec.to_builtins(self.error) if self.error else None
        event = self._event("rank.exited", self.exited_at_ms, data | {"error": error})
        event["data"] |= {"exit_code": self.exit_code, "signal": self.signal}
        return event

    def process(self, found: Process) -> dict[str, Any]:
        """Give the entry of `node.health` about this rank's process."""
        named = {"run": self.run, "attempt": self.attempt, "rank": self.rank, "pid": self.pid}
        return named | {"state": found.state, "cpu_s": round(found.cpu_s, 2), "rss_bytes": found.rss_bytes}

    def tail(self, text: str) -> dict[str, Any]:
        """Give the event `rank.log` with the end of the log."""
        return self._event("rank.log", self.exited_at_ms, {"stream": "tail", "text": text})

    def _event(self, kind: str, at_ms: int | None, data: dict[str, Any]) -> dict[str, Any]:
        told = {key: value for key, value in data.items() if value is not None}
        event: dict[str, Any] = {
            "kind": kind,
            "run": self.run,
            "attempt": self.attempt,
            "rank": self.rank,
            "data": told,
        }
        return event | {"at_ms": at_ms} if at_ms else event


_decode = msgspec.json.Decoder(RankStatus).decode


def read(path: Path) -> RankStatus | None:
    """Read a status file; None when it is gone. Raises ValueError saying what is wrong with it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error
    with os.fdopen(descriptor, "rb") as source:
        text = source.read(MAX_STATUS_BYTES + 1)
    if len(text) > MAX_STATUS_BYTES:
        raise ValueError(f"larger than {MAX_STATUS_BYTES} bytes")
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
