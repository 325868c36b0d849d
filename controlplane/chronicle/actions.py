"""Append to the chronicle; nothing else writes its tables.

Numbers inside a stream have no gaps, so a page that knows number 7 and is shown
9 knows that it missed one. They come from a counter in the stream's row, which
stays locked until the surrounding transaction ends: a sentence that is rolled
back takes its number back with it, and two writers of one stream wait for each
other. Who tells more than one stream in one transaction goes in the order
incident, run, fleet.
"""

from collections.abc import Mapping
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

_NEXT_NUMBER = """
    INSERT INTO chronicle_stream AS stream (name, last_number) VALUES (%s, 1)
    ON CONFLICT (name) DO UPDATE SET last_number = stream.last_number + 1
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
            _append(stream, entry)
    except IntegrityError:
        told = _told(key)
        if told is None:
            raise
        return told
    live.touch(stream, region=registry.CHRONICLE, urgent=True)
    return entry


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


def _append(stream: str, entry: Entry) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_NUMBER, [stream])
        entry.stream_id, entry.number = cursor.fetchone()
    entry.save(force_insert=True)
