"""What others tell us: somebody is to be called, somebody answered, it is over.

Each writes one row in the caller's transaction and takes no lock that others wait for:
the planner does the rest.
"""

import secrets
from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.domain.notify.rules import SEVERITIES
from controlplane.notify import queries, sending
from controlplane.notify.models import Call, Escalation, Message, MessageKind, MessageState, Transport
from controlplane.notify.sending import Clock

MAX_KEY = 250


def call(
    subject: str, *, run: str = "", klass: str = "", severity: str, loud: bool, key: str, now: datetime,
    escalates: bool = True,
) -> bool:  # fmt: skip
    """Ask that people are told of a subject, as `incident:12`; the same `key` twice asks once.

    Loud calls wake somebody and go on from step to step until acknowledged; quiet ones
    are told once. A loud call about a subject for which people are being called already, by
    another key, joins that conversation: whom it reaches next hears how things stand then.
    Part of the caller's transaction; False when it was asked before.
    """
    asked = {
        "subject": subject, "run": run, "klass": klass, "loud": loud, "escalates": loud and escalates,
        "severity": severity if severity in SEVERITIES else SEVERITIES[-1], "called_at": now,
    }  # fmt: skip
    if loud and _calling(subject).exclude(key=key[:MAX_KEY]).exists():
        asked |= {"fresh": False, "escalates": False}
    _, new = Call.objects.get_or_create(key=key[:MAX_KEY], defaults=asked)
    return new


def _calling(subject: str) -> QuerySet[Call]:
    """Return the loud calls of a subject that go on, or that the planner has yet to see."""
    waiting = Call.objects.filter(subject=subject, loud=True, acknowledged_at=None, ended_at=None)
    return waiting.filter(Q(fresh=True) | Q(escalations__next_at__isnull=False))


def hand_over(subject: str, to: str) -> int:
    """Let the calls of a subject go on as calls of another one, which explains it. Part of the caller's transaction.

    Who is called for the other one already is called for it alone.
    """
    going = Call.objects.filter(subject=subject, ended_at=None)
    if _calling(to).exists():
        Escalation.objects.filter(call__in=going).update(next_at=None)
        going.filter(rules=None).update(fresh=False)
    return going.update(subject=to)


def acknowledged(subject: str, by: str, now: datetime) -> int:
    """Somebody looks at the subject: nobody else is called. Part of the caller's transaction."""
    waiting = Call.objects.filter(subject=subject, acknowledged_at=None, ended_at=None)
    return waiting.update(acknowledged_at=now, acknowledged_by=by, fresh=True)


def ended(subject: str, now: datetime) -> int:
    """Nobody is needed for the subject any more; those who were told hear so once. Part of the caller's transaction."""
    return Call.objects.filter(subject=subject, ended_at=None).update(ended_at=now, fresh=True)


def test(transport: Transport, clock: Clock) -> Message:
    """Send a test message now, whatever rules and windows say, and return it with its proof."""
    now = clock()
    message = Message.objects.create(
        transport=transport, sent_by=transport.name, kind=MessageKind.TEST, loud=False, key=secrets.token_hex(16),
        thread=f"{transport.pk}:test", state=MessageState.FAILED, created_at=now, next_at=now,
    )  # fmt: skip
    return sending.send(message.pk, clock) or queries.message(message.pk)
