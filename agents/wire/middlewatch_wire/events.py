"""The envelope of events and batches, and a helper that agents make events with."""

import math
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, convert
from msgspec.json import encode

from middlewatch_wire.kinds import KINDS
from middlewatch_wire.limits import MAX_EVENTS, MAX_INCARNATION, MAX_KIND, MAX_NAME, MAX_SEQ
from middlewatch_wire.shapes import Data, Rank, Time

WIRE_VERSION = 1

Seq = Annotated[int, Meta(ge=1, le=MAX_SEQ)]
RunName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_NO_DATA = Raw(b"{}")


class Event(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One event inside a batch; `data` is the JSON text of its kind's structure."""

    seq: Seq
    at_ms: Time
    kind: Annotated[str, Meta(min_length=1, max_length=MAX_KIND)]
    run: RunName | None = None
    attempt: Rank | None = None
    rank: Rank | None = None
    data: Raw = _NO_DATA


class AgentIdentity(Struct, kw_only=True, frozen=True, gc=False):
    """Who sends: `incarnation` names one life of the agent's process."""

    node: RunName
    incarnation: Annotated[str, Meta(min_length=1, max_length=MAX_INCARNATION)]
    version: Annotated[str, Meta(max_length=32)] = ""


class Batch(Struct, kw_only=True, gc=False):
    """Body of `POST /api/v1/ingest`."""

    wire: int = WIRE_VERSION
    agent: AgentIdentity
    sent_at_ms: Time
    events: Annotated[list[Event], Meta(max_length=MAX_EVENTS)]


def make_event(
    kind: str,
    *,
    at_ms: int,
    seq: int = 1,
    run: str | None = None,
    attempt: int | None = None,
    rank: int | None = None,
    **data: Any,
) -> Event:
    """Build an event of a known `kind` and check its `data`.

    Floats that are not finite become their strings. Raises `KeyError` for an
    unknown kind and `msgspec.ValidationError` for a field of the wrong type.
    """
    checked = make_data(kind, data)
    return Event(seq=seq, at_ms=at_ms, kind=kind, run=run, attempt=attempt, rank=rank, data=Raw(encode(checked)))


def make_data(kind: str, data: dict[str, Any]) -> Data:
    """Turn plain values into the structure of `kind`; errors as in `make_event`."""
    return convert(finite(data), KINDS[kind])


def finite(value: Any) -> Any:
    """Replace every float that JSON cannot carry by its string, at any depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value
