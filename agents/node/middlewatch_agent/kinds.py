"""How each kind of event is treated on its way: how soon it leaves, how late it is dropped.

A rank's death decides what happens to a whole run and must not wait behind the
temperatures of eight GPUs; when the disk is full the temperatures go first.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from middlewatch_wire.limits import MAX_DEPTH, MAX_EVENT_BYTES

URGENT = frozenset({
    "node.hello", "rank.started", "rank.exited", "rank.stack", "rank.collective", "rank.resume",
    "attempt.started", "attempt.exited", "checkpoint", "command.result", "check.result",
    "scheduler.job", "scheduler.node", "capacity.notice", "quorum",
})  # fmt: skip
PROMPT = frozenset({"rank.step", "rank.phase", "rank.log"})
PROMPT_S = 0.2

# Dropped first to last. A kind that is not listed stands at UNLISTED, the precious ones at KEEP.
DROP_ORDER = (
    "node.health", "node.log", "rank.window", "rank.log", "node.heartbeat", "rank.step",
    "rank.collective", "rank.stack", "rank.phase", "quorum",
)  # fmt: skip
UNLISTED = len(DROP_ORDER)
KEEP = UNLISTED + 1
KEPT = frozenset({"rank.started", "rank.exited", "rank.resume", "checkpoint", "command.result", "node.hello"})

_encode = msgspec.json.Encoder().encode


class BadEventError(ValueError):
    """An event that cannot be told; the message names the field."""


def delay_s(kind: str, ordinary_s: float) -> float:
    """Give how long an event of this kind may wait for company, in seconds."""
    if kind in URGENT:
        return 0.0
    return min(PROMPT_S, ordinary_s) if kind in PROMPT else ordinary_s


def drop_class(kind: str) -> int:
    """Give the place of a kind in the order of dropping; the highest is dropped last."""
    if kind in KEPT or kind.startswith("attempt."):
        return KEEP
    return DROP_ORDER.index(kind) if kind in DROP_ORDER else UNLISTED


def encode(event: Mapping[str, Any], now_ms: int) -> bytes:
    """Give the JSON of an event without its `seq`, which it gets in a batch.

    Raises BadEventError when it has no kind, is too deep or is over MAX_EVENT_BYTES.
    """
    kind = event.get("kind")
    if not isinstance(kind, str) or not kind:
        raise BadEventError("kind: missing")
    told: dict[str, Any] = {"at_ms": event.get("at_ms") or now_ms, "kind": kind}
    told.update((key, event[key]) for key in ("run", "attempt", "rank") if event.get(key) is not None)
    told["data"] = finite(event.get("data") or {})
    body = _encode(told)
    if len(body) > MAX_EVENT_BYTES:
        raise BadEventError(f"data: {len(body)} bytes, the limit is {MAX_EVENT_BYTES}")
    return body


def finite(value: Any, depth: int = 0) -> Any:
    """Replace numbers that JSON cannot carry by "nan", "inf" and "-inf"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > MAX_DEPTH:
        raise BadEventError(f"data: nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        return {str(key): finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item, depth + 1) for item in value]
    return value
