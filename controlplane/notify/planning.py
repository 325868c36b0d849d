"""Turn calls into escalations and messages; one planner at a time.

Calls are gathered for a moment before their message leaves, and after a message the next
one to the same place waits a minute, so that a storm arrives as one message and not as
forty. Every look does all that is due; a look that was missed costs a second.
"""

import secrets
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max, QuerySet

from controlplane.domain.notify import rules as domain
from controlplane.notify import queries
from controlplane.notify.kinds import KINDS
from controlplane.notify.models import (
    Call,
    Escalation,
    Mention,
    Message,
    MessageKind,
    MessageState,
    Rule,
    RuleStep,
    Transport,
)

GATHER = timedelta(seconds=3)
"""A message waits so long for more, anew with each that comes."""
GATHER_MOST = timedelta(seconds=10)
"""While a storm goes on, its first message leaves after this time."""
APART = timedelta(seconds=60)
"""Least time between two messages to one place; what comes meanwhile is gathered."""
START_OVER = timedelta(hours=1)
"""An escalation that reached its end without an answer begins anew after this time."""
AT_ONCE = 500
LOCK = 0x6D77_6E6F_7469
"""Number of the advisory lock that one planner holds: `mwnoti`."""


def plan(now: datetime) -> bool:
    """Do everything that is due; False when another planner is at it."""
    with transaction.atomic():
        if not _alone():
            return False
        fresh = list(Call.objects.filter(fresh=True)[:AT_ONCE])
        rules = _rules() if fresh else []
        for call in fresh:
            _take_in(call, rules, now)
        for escalation in _due(now)[:AT_ONCE]:
            _escalate(escalation, now)
    return True


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def _rules() -> list[tuple[Rule, domain.Rule]]:
    """Read the rules in force once for all calls of a look."""
    return [(row, queries.as_rule(row)) for row in queries.rules_in_force()]


def _take_in(call: Call, rules: list[tuple[Rule, domain.Rule]], now: datetime) -> None:
    """See what has changed about a call: it is new, somebody acknowledged it, or it is over."""
    seen = Call.objects.filter(
        pk=call.pk, acknowledged_at=call.acknowledged_at, ended_at=call.ended_at
    )  # a change in this very moment stays fresh
    if call.ended_at is not None:
        call.escalations.update(next_at=None)
        _follow_up(call, MessageKind.ENDED, now)
    elif call.acknowledged_at is not None:
        _rest(call, call.acknowledged_at)
        _follow_up(call, MessageKind.ACKNOWLEDGED, now)
    elif call.rules is None:
        Call.objects.filter(pk=call.pk).update(rules=_begin(call, rules, now))
    seen.update(fresh=False)


def _begin(call: Call, rules: list[tuple[Rule, domain.Rule]], now: datetime) -> int:
    """Begin an escalation for each rule that wants the call; return how many there are."""
    asked = queries.as_call(call)
    wanting = [row for row, rule in rules if rule.wants(asked, call.called_at)]
    for rule in wanting:
        first = next(iter(rule.steps.all()), None)
        at = now + timedelta(seconds=first.after_s) if first else None
        Escalation.objects.get_or_create(call=call, rule=rule, defaults={"next_at": at})
    return len(wanting)


def _rest(call: Call, since: datetime) -> None:
    """Let the escalations of an acknowledged call rest: for good, or until their rule reminds."""
    for escalation in call.escalations.select_related("rule"):
        remind_s = escalation.rule.remind_s
        escalation.next_step = 0
        escalation.next_at = since + timedelta(seconds=remind_s) if remind_s else None
        escalation.save(update_fields=["next_step", "next_at"])


def _due(now: datetime) -> QuerySet[Escalation]:
    due = Escalation.objects.filter(next_at__lte=now, call__ended_at=None, call__fresh=False).select_related(
        "call", "rule"
    )
    return due.order_by("next_at", "pk")


def _escalate(escalation: Escalation, now: datetime) -> None:
    """Tell whom the next step names, and set the time of the step after it."""
    call, rule = escalation.call, escalation.rule
    closed_until = queries.closed_until(call.run, now)
    steps = list(rule.steps.prefetch_related("transports"))
    if closed_until is not None:
        escalation.next_at = closed_until
    elif not rule.enabled or escalation.next_step >= len(steps):
        escalation.next_at = None
    else:
        _tell(call, rule, steps[escalation.next_step], now)
        _go_on(escalation, steps, now)
    escalation.save(update_fields=["next_step", "next_at"])


def _go_on(escalation: Escalation, steps: list[RuleStep], now: datetime) -> None:
    """Set the step that follows; behind the last one it begins anew, for nobody has acknowledged yet."""
    following = escalation.next_step + 1
    over = following >= len(steps)
    wait = START_OVER if over else timedelta(seconds=steps[following].after_s)
    escalation.next_step = 0 if over else following
    escalation.next_at = now + wait if escalation.call.escalates else None


def hurry(message: Message, now: datetime) -> None:
    """A message was given up: where no other has reached anybody, whoever comes next is told at once."""
    hopeful = Mention.objects.exclude(message__state__in=(MessageState.GIVEN_UP, MessageState.SUPPRESSED))
    lost = message.mentions.exclude(call__in=hopeful.values("call")).values("call")
    Escalation.objects.filter(call__in=lost, next_at__gt=now, call__acknowledged_at=None).update(next_at=now)


def _tell(call: Call, rule: Rule, step: RuleStep, now: datetime) -> None:
    for transport in step.transports.all():
        if transport.enabled:
            message = _gathering(transport, call, now)
            about = {"rule": rule.name, "step": step.index}
            Mention.objects.get_or_create(message=message, call=call, defaults=about)


def _gathering(transport: Transport, call: Call, now: datetime) -> Message:
    """Return the message to this place that still waits for more, or begin one."""
    mine = Message.objects.filter(transport=transport, loud=call.loud, kind=MessageKind.CALL)
    waiting = mine.select_for_update().filter(state=MessageState.PENDING).first()
    if waiting is not None:
        return _wait_on(waiting, now)
    last = mine.exclude(state=MessageState.SUPPRESSED).aggregate(at=Max("tried_at"))["at"]
    at = max(now + GATHER, last + APART) if last else now + GATHER
    return write(transport, MessageKind.CALL, f"{transport.pk}:{call.subject}", now, loud=call.loud, at=at)


def _wait_on(message: Message, now: datetime) -> Message:
    """Give a message that has just got more to tell a little longer."""
    longer = max(message.next_at, min(now + GATHER, message.created_at + GATHER_MOST))
    if longer != message.next_at:
        message.next_at = longer
        message.save(update_fields=["next_at"])
    return message


def write(transport: Transport, kind: MessageKind, thread: str, now: datetime, *, loud: bool, at: datetime) -> Message:
    """Put a message into the outbox; `at` is when it may leave."""
    return Message.objects.create(
        transport=transport, sent_by=transport.name, kind=kind, loud=loud, thread=thread, key=secrets.token_hex(16),
        created_at=now, next_at=at,
    )  # fmt: skip


def _follow_up(call: Call, kind: MessageKind, now: datetime) -> None:
    """Tell those who were told that it is acknowledged or over, once all that they were told of is."""
    for thread, transport in _threads(call):
        if kind == MessageKind.ACKNOWLEDGED and not KINDS[transport.kind].tracks:
            continue
        calls = _told_in(thread)
        open_ones = calls.filter(ended_at=None)
        waiting = open_ones.filter(acknowledged_at=None) if kind == MessageKind.ACKNOWLEDGED else open_ones
        if calls.exists() and not waiting.exists():
            message = write(transport, kind, thread, now, loud=False, at=now)
            Mention.objects.bulk_create([Mention(message=message, call=one) for one in calls])


def _threads(call: Call) -> list[tuple[str, Transport]]:
    """Return the threads in which a call was told."""
    told = Message.objects.filter(mentions__call=call, kind=MessageKind.CALL, transport__isnull=False)
    told = told.exclude(state=MessageState.SUPPRESSED).select_related("transport")
    return list({message.thread: message.transport for message in told if message.transport}.items())


def _told_in(thread: str) -> QuerySet[Call]:
    """Return the calls that were told in a thread since it was last closed."""
    mine = Message.objects.filter(thread=thread)
    closed = mine.filter(kind=MessageKind.ENDED).aggregate(pk=Max("pk"))["pk"] or 0
    since = mine.filter(kind=MessageKind.CALL, pk__gt=closed)
    return Call.objects.filter(mentions__message__in=since).distinct().order_by("pk")
