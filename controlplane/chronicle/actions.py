"""Append to the chronicle; nothing else writes its tables.

Numbers inside a stream have no gaps, so a page that knows number 7 and is shown
9 knows that it missed one. They come from a counter in the stream's row, which
stays locked until the surrounding transaction ends: a sentence that is rolled
back takes its number back with it, and two writers of one stream wait for each
other. Who tells more than one stream in one transaction goes in the order
incident, run, fleet.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from psycopg.types.json import Jsonb

from controlplane.chronicle.models import Entry
from controlplane.domain.chronicle.kinds import Kind
from controlplane.domain.errors import Invalid
from controlplane.live import actions as live
from controlplane.live import registry
from controlplane.rows import planned

ACTOR_KINDS = frozenset({"person", "runbook", "detector", "agent", "system"})
MAX_SENTENCE = 20_000
KINDS = frozenset(Kind)

_LAST_NUMBER = """
    INSERT INTO chronicle_stream AS stream (name, last_number) VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET last_number = stream.last_number + %s
    RETURNING id, last_number
"""

_TELL_ALL = """
    WITH told (place, at, kind, sentence, actor_kind, actor, data, key) AS (VALUES {told}),
    fresh AS (
        SELECT *, row_number() OVER (ORDER BY place) AS nth, count(*) OVER () AS many FROM told
        WHERE NOT EXISTS (SELECT FROM chronicle_entry AS entry WHERE entry.key = told.key)
    ),
    stream AS (
        INSERT INTO chronicle_stream AS known (name, last_number) SELECT %s, many FROM fresh WHERE nth = 1
        ON CONFLICT (name) DO UPDATE SET last_number = known.last_number + excluded.last_number
        RETURNING id, last_number
    )
    INSERT INTO chronicle_entry
        (stream_id, number, happened_at, recorded_at, kind, sentence, actor_kind, actor, data, key)
    SELECT stream.id, stream.last_number - many + nth, at, %s, kind, sentence, actor_kind, actor, data, key
    FROM fresh CROSS JOIN stream
"""
_TOLD = "(%s, %s::timestamptz, %s, %s, %s, %s, %s, %s)"


def tell(
    stream: str,
    kind: str,
    sentence: str,
    *,
    at: datetime,
    now: datetime,
    actor_kind: str,
    actor: str = "",
    data: Mapping[str, Any] | None = None,
    key: str | None = None,
    corrects: Entry | None = None,
) -> Entry:
    """Append one sentence to `stream` (`incident:<id>`, `run:<name>` or `fleet`) and show it on open pages.

    `at` is when the thing told happened, `now` when it is written down. Telling the
    same `key` again, even at the same moment elsewhere, returns the entry that is
    there. May be called inside a transaction; pages hear of it after the commit.
    """
    sentence = _storable(sentence)
    _check(kind, actor_kind, sentence)
    told = _told(key)
    if told is not None:
        return told
    entry = Entry(
        happened_at=at, recorded_at=now, kind=kind, sentence=sentence, actor_kind=actor_kind, actor=actor,
        data=dict(data or {}), key=key, corrects=corrects,
    )  # fmt: skip
    try:
        with transaction.atomic():
            _append(stream, [entry])
    except IntegrityError:
        told = _told(key)
        if told is None:
            raise
        return told
    live.touch(stream, region=registry.CHRONICLE, urgent=True)
    return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What `tell` takes, kept until it is told."""

    kind: str
    sentence: str
    at: datetime
    actor_kind: str
    actor: str = ""
    data: Mapping[str, Any] | None = None
    key: str | None = None


def tell_all(stream: str, sentences: Sequence[Sentence], *, now: datetime, whole: bool = False) -> None:
    """Append sentences to one stream in their order, as `tell` would each, by one statement.

    Raises:
        IntegrityError: a key was told elsewhere at this moment, and the `whole` transaction is to be made again.
    """
    told = _once(sentences)
    if not told:
        return
    try:
        with nullcontext() if whole else transaction.atomic():
            new = _tell_all(stream, told, now)
    except IntegrityError:
        if whole:
            raise
        for one in told:
            tell(stream, one.kind, one.sentence, at=one.at, now=now, actor_kind=one.actor_kind, actor=one.actor,
                 data=one.data, key=one.key)  # fmt: skip
        return
    if new:
        live.touch(stream, region=registry.CHRONICLE, urgent=True)


def _tell_all(stream: str, told: Sequence[Sentence], now: datetime) -> int:
    """Return how many of them were new."""
    values: list[Any] = [value for place, one in enumerate(told) for value in _values(place, one)]
    with planned() as cursor:
        cursor.execute(_TELL_ALL.format(told=", ".join([_TOLD] * len(told))), [*values, stream, now])
        return int(cursor.rowcount)


def _once(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Leave out those whose key stands twice among them."""
    first = {one.key: one for one in reversed(sentences)}
    return [one for one in sentences if one.key is None or first[one.key] is one]


def _values(place: int, one: Sentence) -> tuple[object, ...]:
    sentence = _storable(one.sentence)
    _check(one.kind, one.actor_kind, sentence)
    return place, one.at, one.kind, sentence, one.actor_kind, one.actor, Jsonb(dict(one.data or {})), one.key


def correct(wrong: Entry, sentence: str, *, now: datetime, actor: str, key: str | None = None) -> Entry:
    """Append what a person knows better by now; the wrong entry stays and is shown as corrected."""
    return tell(
        wrong.stream.name,
        Kind.CORRECTION,
        sentence,
        at=now,
        now=now,
        actor_kind="person",
        actor=actor,
        data={"corrects": wrong.number},
        key=key,
        corrects=wrong,
    )


def _storable(text: str) -> str:
    """Replace what PostgreSQL cannot store: NUL characters and halves of surrogate pairs."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


def _check(kind: str, actor_kind: str, sentence: str) -> None:
    if kind not in KINDS:
        raise Invalid("kind", f"{kind} is no kind of entry")
    if actor_kind not in ACTOR_KINDS:
        raise Invalid("actor_kind", f"must be one of {', '.join(sorted(ACTOR_KINDS))}")
    if not sentence.strip():
        raise Invalid("sentence", "must say something")
    if len(sentence) > MAX_SENTENCE:
        raise Invalid("sentence", f"must be at most {MAX_SENTENCE} characters")


def _told(key: str | None) -> Entry | None:
    return Entry.objects.filter(key=key).first() if key is not None else None


def _append(stream: str, entries: Sequence[Entry]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LAST_NUMBER, [stream, len(entries), len(entries)])
        stream_id, last = cursor.fetchone()
    for number, entry in enumerate(entries, start=last - len(entries) + 1):
        entry.stream_id, entry.number = stream_id, number
    Entry.objects.bulk_create(entries)
