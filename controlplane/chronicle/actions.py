"""Append to the chronicle; nothing else writes its tables.

Numbers inside a stream have no gaps, so a page that knows number 7 and is shown
9 knows that it missed one. They come from a counter in the stream's row, which
stays locked until the surrounding transaction ends: a sentence that is rolled
back takes its number back with it, and two writers of one stream wait for each
other. Who tells more than one stream in one transaction goes in the order
incident, run, fleet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction

from controlplane.chronicle.models import Entry
from controlplane.domain.chronicle.kinds import Kind
from controlplane.domain.errors import Invalid
from controlplane.live import actions as live
from controlplane.live import registry

ACTOR_KINDS = frozenset({"person", "runbook", "detector", "agent", "system"})
MAX_SENTENCE = 20_000
KINDS = frozenset(Kind)

_LAST_NUMBER = """
    INSERT INTO chronicle_stream AS stream (name, last_number) VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET last_number = stream.last_number + %s
    RETURNING id, last_number
"""


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


def tell_all(stream: str, sentences: Sequence[Sentence], *, now: datetime) -> None:
    """Append sentences to one stream in their order, as `tell` would each, by a handful of queries in all."""
    fresh = _fresh(sentences)
    entries = [_entry(one, now) for one in fresh]
    if not entries:
        return
    try:
        with transaction.atomic():
            _append(stream, entries)
    except IntegrityError:  # one of the keys was told elsewhere at this moment
        for one in fresh:
            tell(stream, one.kind, one.sentence, at=one.at, now=now, actor_kind=one.actor_kind, actor=one.actor,
                 data=one.data, key=one.key)  # fmt: skip
        return
    live.touch(stream, region=registry.CHRONICLE, urgent=True)


def _fresh(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Leave out those whose key was told before, or stands twice among them."""
    keys = [one.key for one in sentences if one.key is not None]
    told = set(Entry.objects.filter(key__in=keys).values_list("key", flat=True)) if keys else set()
    fresh = []
    for one in sentences:
        if one.key is None or one.key not in told:
            fresh.append(one)
            told.add(one.key)
    return fresh


def _entry(one: Sentence, now: datetime) -> Entry:
    sentence = _storable(one.sentence)
    _check(one.kind, one.actor_kind, sentence)
    return Entry(
        happened_at=one.at, recorded_at=now, kind=one.kind, sentence=sentence, actor_kind=one.actor_kind,
        actor=one.actor, data=dict(one.data or {}), key=one.key,
    )  # fmt: skip


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
