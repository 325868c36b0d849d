"""Claim a message, put it into words, send it, and write down how that ended.

A message is delivered at least once: the try is written before it is made, and a sender
that dies in between is followed by another when its claim runs out. The key stays the
same, so a receiver that looks at it is told once.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from controlplane.access import links
from controlplane.domain.errors import Invalid, MiddlewatchError
from controlplane.domain.notify.retrying import Answer, Fate, next_try
from controlplane.domain.notify.rules import weight
from controlplane.domain.notify.text import LISTED, Told
from controlplane.live import actions as live
from controlplane.notify import planning, registry
from controlplane.notify.letters import Letter
from controlplane.notify.models import Call, Message, MessageKind, MessageState, Transport
from controlplane.notify.secrets import unseal
from controlplane.notify.transports import SENDERS

log = logging.getLogger(__name__)

CLAIM = timedelta(seconds=40)
"""Longer than the slowest transport takes; only then another sender may try."""
AT_A_TIME = 2
"""Messages that one transport sends at once, so that a stalled receiver leaves senders for the others."""
LINK_LIFE = timedelta(hours=12)
PATIENCE = timedelta(seconds=2)
OPEN = (MessageState.PENDING, MessageState.SENDING, MessageState.FAILED)
WHY_MAX = 300
SHOWN_AT_ONCE = 20
"""Open pages that one message brings up to date."""
INCIDENT = "incident:"

Clock = Callable[[], datetime]
"""Read twice for each message: when it was taken, and when its receiver had answered."""


def due(now: datetime, limit: int) -> list[int]:
    """Return messages that may be sent now, loud ones first, at most `AT_A_TIME` of one transport."""
    waiting = Message.objects.filter(state__in=OPEN, next_at__lte=now).order_by("-loud", "next_at", "pk")
    busy: dict[int | None, int] = {}
    for transport in Message.objects.filter(state=MessageState.SENDING, next_at__gt=now).values_list(
        "transport", flat=True
    ):
        busy[transport] = busy.get(transport, 0) + 1
    chosen: list[int] = []
    for pk, transport in waiting.values_list("pk", "transport")[:500]:
        if len(chosen) < limit and busy.get(transport, 0) < AT_A_TIME:
            busy[transport] = busy.get(transport, 0) + 1
            chosen.append(pk)
    return chosen


def send(message_id: int, clock: Clock) -> Message | None:
    """Claim one message and send it; None when somebody else has it or it is not due."""
    now = clock()
    message = _claim(message_id, now)
    if message is None:
        return None
    letter, answer = _try(message, now)
    if answer is None:
        _suppress(message, now)
    else:
        _record(message, answer, letter.push if letter else "", clock())
    message.refresh_from_db()
    return message


def _try(message: Message, now: datetime) -> tuple[Letter | None, Answer | None]:
    """Put the message into words and send it; no answer when there is nothing to tell, or nobody to tell it to."""
    try:
        letter, transport = _letter(message, now), _usable(message)
        return letter, _sent(transport, letter, now) if transport and letter else None
    except MiddlewatchError as error:
        return None, Answer(fate=Fate.NEVER, why=str(error))
    except Exception as error:  # a mistake of ours: tried again, and given up like any other
        log.exception("message %s could not be sent", message.pk)
        return None, Answer(fate=Fate.AGAIN, why=f"Middlewatch failed at it: {type(error).__name__}")


def _usable(message: Message) -> Transport | None:
    """Return the transport unless it is gone or switched off; a test is sent by one that is off, too."""
    transport = message.transport
    return transport if transport and (transport.enabled or message.kind == MessageKind.TEST) else None


def _claim(message_id: int, now: datetime) -> Message | None:
    waiting = Message.objects.filter(pk=message_id, state__in=OPEN, next_at__lte=now)
    taken = waiting.update(
        state=MessageState.SENDING, next_at=now + CLAIM, tried_at=now, fence=F("fence") + 1, tries=F("tries") + 1
    )
    return Message.objects.select_related("transport").get(pk=message_id) if taken else None


def _sent(transport: Transport, letter: Letter, now: datetime) -> Answer:
    values = {**transport.settings, **unseal(transport.secret)}
    return SENDERS[transport.kind](values, letter, now, settings.NOTIFY_ALLOW)


def _letter(message: Message, now: datetime) -> Letter | None:
    """Put a message into words as things stand now; None when there is nothing to tell any more."""
    told = _told(message, now)
    if not told:
        return None
    return Letter(
        key=message.key, thread=message.thread, kind=message.kind, loud=message.loud, told=told,
        more_url=f"{settings.BASE_URL}/incidents/?state=open",
    )  # fmt: skip


def _told(message: Message, now: datetime) -> list[Told]:
    if message.kind == MessageKind.TEST:
        return [_test(message)]
    calls = Call.objects.filter(mentions__message=message).order_by("pk")
    if message.kind == MessageKind.CALL:
        person = message.transport.person if message.transport else ""
        told = _worded(calls.filter(ended_at=None), now)
        return [_with_links(one, person, now) for one in told[:LISTED]] + told[LISTED:]
    return [replace(one, asks=()) for one in _worded(calls, now)] if _was_told(message) else []


def _worded(calls: QuerySet[Call], now: datetime) -> list[Told]:
    """Put the worst calls into words; of the many others a message tells the number alone."""
    by_subject = {call.subject: call for call in calls}
    worst = sorted(by_subject.values(), key=lambda call: -weight(call.severity))
    return [registry.told(call.subject, now) for call in worst[:LISTED]] + [
        Told(subject=call.subject, sentence=call.subject, run=call.run, severity=call.severity, klass=call.klass)
        for call in worst[LISTED:]
    ]


def _with_links(told: Told, person: str, now: datetime) -> Told:
    """Add the addresses that answer for whoever gets the message; nothing to acknowledge where somebody did."""

    def link(purpose: str, subject: str, life: timedelta) -> str:
        return links.make(purpose, subject, person=person, now=now, life=life)

    waits = told.subject.startswith(INCIDENT) and not (told.acknowledged or told.over)
    asked = [one for one in told.asks if one.until > now]
    return replace(
        told, asks=(), acknowledge_url=link("acknowledge", told.subject, LINK_LIFE) if waits else "",
        links=(
            *((one.word, link(one.purpose, one.subject, min(LINK_LIFE, one.until - now))) for one in asked),
            *told.links,
        ),
    )  # fmt: skip


def _was_told(message: Message) -> bool:
    """Whether anybody was told in this thread what is now followed up."""
    earlier = Message.objects.filter(thread=message.thread, kind=MessageKind.CALL, pk__lt=message.pk)
    return earlier.filter(state=MessageState.DELIVERED).exists()


def _test(message: Message) -> Told:
    return Told(
        subject="test", severity="info", url=f"{settings.BASE_URL}/settings/notifications/",
        sentence=f"This is a test of {message.sent_by} by Middlewatch: nothing has happened",
    )  # fmt: skip


def _record(message: Message, answer: Answer, text: str, now: datetime) -> None:
    """Write down how a try ended, unless somebody else has claimed the message meanwhile."""
    again = next_try(answer, message.tries, message.key, created=message.created_at, now=now)
    if message.kind == MessageKind.TEST:
        again = None
    if answer.fate is Fate.DELIVERED:
        state = MessageState.DELIVERED
    else:
        state = MessageState.FAILED if again else MessageState.GIVEN_UP
    with transaction.atomic():
        mine = _mine(message).update(
            state=state, next_at=again or now, ended_at=None if again else now, text=text[:WHY_MAX],
            why=answer.why[:WHY_MAX], proof=dict(answer.proof),
        )  # fmt: skip
        if mine and state == MessageState.GIVEN_UP and message.kind == MessageKind.CALL:
            planning.hurry(message, now)
    _show(message)


def _show(message: Message) -> None:
    """Bring the open pages of what was told up to date; what no page can show is none of ours."""
    for subject in message.mentions.values_list("call__subject", flat=True)[:SHOWN_AT_ONCE]:
        with suppress(Invalid):
            live.touch(subject, urgent=False)


def _suppress(message: Message, now: datetime) -> None:
    """Nothing to tell any more, or nobody to tell it to; a follow-up waits for a try under way."""
    thread = Message.objects.filter(thread=message.thread, kind=MessageKind.CALL, pk__lt=message.pk)
    if message.kind != MessageKind.CALL and thread.filter(state=MessageState.SENDING).exists():
        _mine(message).update(state=MessageState.PENDING, next_at=now + PATIENCE)
        return
    why = "it was over before anybody was told" if _usable(message) else "its transport is gone or off"
    _mine(message).update(state=MessageState.SUPPRESSED, next_at=now, ended_at=now, why=why)


def _mine(message: Message) -> QuerySet[Message]:
    return Message.objects.filter(pk=message.pk, fence=message.fence, state=MessageState.SENDING)
