"""Turn batches into bytes and bytes of strangers into events that can be stored.

Decoding takes the fast way first: the whole envelope in one typed go, then each
`data` by the decoder of its kind. Only when that fails is every event looked at
alone, so that one bad event does not lose the good ones beside it. What comes
out is JSON written again by us: fields nobody knows are gone, and no character
or number is left that PostgreSQL's jsonb would refuse.
"""

import re
from typing import Annotated, Any, Never

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder, Encoder

from middlewatch_wire.events import WIRE_VERSION, AgentIdentity, Batch, Event
from middlewatch_wire.kinds import KINDS
from middlewatch_wire.limits import (
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_INT,
    MAX_ITEMS,
    MAX_SEQ,
    MAX_STRING,
    MIN_INT,
)
from middlewatch_wire.shapes import Time

FREE_FORM = frozenset(
    {"attempt.started", "check.result", "command.result", "rank.collective", "rank.resume", "scheduler.job"}
)
"""Kinds with parts of no fixed shape: their values are walked through one by one."""

_HEX = rb"[0-9a-fA-F]"
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB]" + _HEX * 2 + rb"\\u[dD][c-fC-F]" + _HEX * 2 + rb"|\\u[dD][89a-fA-F]" + _HEX * 2 + rb"|\\."
)
"""A whole surrogate pair, half of one, or any other escape."""
_HALF = len("\\ud800")
_NUL = b"\\u0000"
_REPLACEMENT = "\ufffd"


class Received(Struct, gc=False):
    """An event fit to be stored; `data` is clean JSON text of at most `MAX_EVENT_BYTES`."""

    seq: int
    at_ms: int
    kind: str
    run: str | None
    attempt: int | None
    rank: int | None
    data: bytes


class Rejected(Struct, gc=False):
    """An event that is not stored: which one, which field, and why."""

    seq: int
    index: int
    field: str
    reason: str


class Decoded(Struct, kw_only=True):
    """A batch after decoding. A rejected event counts as received, so that nobody sends it for ever."""

    agent: AgentIdentity
    sent_at_ms: int
    events: list[Received]
    rejected: list[Rejected]


class Malformed(ValueError):
    """No batch could be read, or an event could not even be named by its `seq`."""

    def __init__(self, field: str, reason: str, index: int | None = None) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.index = index


class TooMany(Malformed):
    """More than `MAX_EVENTS` events: send smaller batches."""


class _Unfit(ValueError):
    """One event's `data` breaks a limit."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class _Envelope(Struct):
    agent: AgentIdentity
    sent_at_ms: Time
    events: list[Raw]
    wire: int = WIRE_VERSION


class _Named(Struct):
    seq: Annotated[int, Meta(ge=1, le=MAX_SEQ)]


_batch = Decoder(Batch)
_envelope = Decoder(_Envelope)
_event = Decoder(Event)
_named = Decoder(_Named)
_known = {kind: Decoder(data).decode for kind, data in KINDS.items()}
_unknown = Decoder(dict[str, Any]).decode
_encode = Encoder().encode


def encode_batch(batch: Batch) -> bytes:
    """JSON text of a batch."""
    return _encode(batch)


def decode_batch(body: bytes) -> Decoded:
    """Read a batch that may hold anything at all.

    Raises `Malformed` when the envelope is no batch (names the event's index and
    the field where it can) and `TooMany` above `MAX_EVENTS`.
    """
    try:
        batch = _batch.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _decode_one_by_one(body)
    _check_envelope(batch.wire, batch.agent)
    decoded = Decoded(agent=batch.agent, sent_at_ms=batch.sent_at_ms, events=[], rejected=[])
    for index, event in enumerate(batch.events):
        _take(decoded, index, event)
    return decoded


def _decode_one_by_one(body: bytes) -> Decoded:
    try:
        batch = _envelope.decode(_mend_surrogates(body))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        _malformed(error)
    _check_envelope(batch.wire, batch.agent)
    if len(batch.events) > MAX_EVENTS:
        raise TooMany("events", f"more than {MAX_EVENTS} events")
    decoded = Decoded(agent=batch.agent, sent_at_ms=batch.sent_at_ms, events=[], rejected=[])
    for index, raw in enumerate(batch.events):
        try:
            event = _event.decode(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            seq = _seq_of(raw, index)
            decoded.rejected.append(Rejected(seq, index, *_place(error)))
        else:
            _take(decoded, index, event)
    return decoded


def _mend_surrogates(body: bytes) -> bytes:
    """Replace halves of surrogate pairs by U+FFFD: lenient writers send them, no reader here takes them."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda found: b"\\ufffd" if len(found[0]) == _HALF else found[0], body)


def _seq_of(raw: Raw, index: int) -> int:
    try:
        return _named.decode(raw).seq
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        field, reason = _place(error)
        raise Malformed(f"events[{index}].{field}".rstrip("."), reason, index) from error


def _take(decoded: Decoded, index: int, event: Event) -> None:
    try:
        data = _clean(event)
    except _Unfit as error:
        decoded.rejected.append(Rejected(event.seq, index, error.field, str(error)))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        field, reason = _place(error)
        decoded.rejected.append(Rejected(event.seq, index, f"data.{field}".rstrip("."), reason))
    else:
        decoded.events.append(Received(event.seq, event.at_ms, event.kind, event.run, event.attempt, event.rank, data))


def _clean(event: Event) -> bytes:
    kind = event.kind
    _check_name("kind", kind)
    if event.run is not None:
        _check_name("run", event.run)
    value = _known.get(kind, _unknown)(event.data)
    if kind in FREE_FORM or kind not in _known:
        value = _walk(msgspec.to_builtins(value), "data", MAX_DEPTH)
    encoded = _encode(value)
    if _NUL in encoded:
        encoded = _encode(_walk(msgspec.to_builtins(value), "data", MAX_DEPTH))
    if len(encoded) > MAX_EVENT_BYTES:
        raise _Unfit("data", f"more than {MAX_EVENT_BYTES} bytes")
    return encoded


def _walk(value: Any, field: str, depth: int) -> Any:
    """Check a value of no fixed shape against every limit; NUL characters become U+FFFD."""
    if isinstance(value, str):
        return _text(value, field)
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        raise _Unfit(field, "integer out of range")
    if isinstance(value, dict | list):
        if depth == 0:
            raise _Unfit(field, f"nested deeper than {MAX_DEPTH} levels")
        if len(value) > MAX_ITEMS:
            raise _Unfit(field, f"more than {MAX_ITEMS} items")
    if isinstance(value, dict):
        return {_text(key, field): _walk(inner, f"{field}.{key[:40]}", depth - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_walk(inner, f"{field}[{index}]", depth - 1) for index, inner in enumerate(value)]
    return value


def _text(value: str, field: str) -> str:
    if len(value) > MAX_STRING:
        raise _Unfit(field, f"more than {MAX_STRING} characters")
    return value.replace("\0", _REPLACEMENT)


def _check_name(field: str, value: str) -> None:
    if not value.isprintable():
        raise _Unfit(field, "has characters that cannot be shown")


def _check_envelope(wire: int, agent: AgentIdentity) -> None:
    if wire != WIRE_VERSION:
        raise Malformed("wire", f"version {wire} is not spoken here, {WIRE_VERSION} is")
    for field, value in (("node", agent.node), ("incarnation", agent.incarnation)):
        if not value.isprintable():
            raise Malformed(f"agent.{field}", "has characters that cannot be shown")


def _malformed(error: Exception) -> Never:
    field, reason = _place(error)
    raise Malformed(field or "body", reason) from error


def _place(error: Exception) -> tuple[str, str]:
    """Split msgspec's message into the field's path (without `$.`) and the reason."""
    if isinstance(error, RecursionError):
        return "", "nested too deeply"
    reason, _, path = str(error).partition(" - at `")
    missing = reason.rpartition("required field `")[2].rstrip("`") if "required field" in reason else ""
    field = path.rstrip("`").lstrip("$").lstrip(".")
    return ".".join(part for part in (field, missing) if part), reason
