"""Read whom there is to tell, who was told, and whether anybody would be."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Model, QuerySet

from controlplane.domain.errors import NotFound
from controlplane.domain.notify import rules
from controlplane.domain.notify.hours import Hours, first_gap
from controlplane.notify.models import (
    Call,
    DeadMan,
    Mention,
    Message,
    MessageKind,
    MessageState,
    Rule,
    Transport,
    Window,
)

SHOWN = 50
Row = TypeVar("Row", bound=Model)
NEWS_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldBy:
    """One message about a subject: when, by which way, by which step of which rule, and with what proof."""

    at: datetime
    by: str
    kind: str
    state: str
    rule: str
    step: int
    why: str
    proof: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the calls about a subject."""

    called: bool
    messages: tuple[ToldBy, ...]
    acknowledged_by: str
    acknowledged_at: datetime | None
    next_at: datetime | None
    nobody: bool


def told(subject: str) -> Told:
    """Tell who was told of a subject, when, by what, and who acknowledged it; newest first."""
    calls = list(Call.objects.filter(subject=subject).order_by("-pk")[:SHOWN])
    mentions = Mention.objects.filter(call__in=calls).select_related("message").order_by("-message")
    once = {mention.message_id: mention for mention in mentions[:SHOWN]}
    nexts = [one.next_at for call in calls for one in call.escalations.exclude(next_at=None) if one.next_at]
    answered = next((call for call in calls if call.acknowledged_at), None)
    return Told(
        called=bool(calls),
        messages=tuple(_told_by(mention) for mention in once.values()),
        acknowledged_by=answered.acknowledged_by if answered else "",
        acknowledged_at=answered.acknowledged_at if answered else None,
        next_at=min(nexts, default=None),
        nobody=bool(calls) and all(call.rules == 0 for call in calls),
    )


def _told_by(mention: Mention) -> ToldBy:
    message = mention.message
    return ToldBy(
        at=message.ended_at or message.tried_at or message.next_at, by=message.sent_by, kind=message.kind,
        state=message.state, rule=mention.rule, step=mention.step + 1, why=message.why, proof=proof_words(message),
        text=message.text,
    )  # fmt: skip


def proof_words(message: Message) -> str:
    """Say what the receiver answered, and whom it left out."""
    status, said = message.proof.get("status"), message.proof.get("said")
    words = " ".join(str(part) for part in (status, said) if part)
    return f"{words}; {message.why}" if message.why and message.state == MessageState.DELIVERED else words


def messages() -> QuerySet[Message]:
    """Return all messages, newest first."""
    return Message.objects.order_by("-pk")


def transport(pk: int) -> Transport:
    """Return a transport; raises `NotFound`."""
    return _one(Transport.objects.filter(pk=pk), f"there is no transport {pk}")


def rule(pk: int) -> Rule:
    """Return a rule; raises `NotFound`."""
    return _one(Rule.objects.filter(pk=pk), f"there is no rule {pk}")


def window(pk: int) -> Window:
    """Return a maintenance window; raises `NotFound`."""
    return _one(Window.objects.filter(pk=pk), f"there is no maintenance window {pk}")


def dead_man(pk: int) -> DeadMan:
    """Return an outside address that watches us; raises `NotFound`."""
    return _one(DeadMan.objects.filter(pk=pk), f"there is no sign of life {pk}")


def message(pk: int) -> Message:
    """Return a message; raises `NotFound`."""
    return _one(Message.objects.filter(pk=pk), f"there is no message {pk}")


def _one(found: "QuerySet[Row]", why: str) -> "Row":
    row = found.first()
    if row is None:
        raise NotFound(why)
    return row


def rules_in_force() -> QuerySet[Rule]:
    """Return the rules that are switched on."""
    return Rule.objects.filter(enabled=True).prefetch_related("steps__transports")


def as_rule(row: Rule) -> rules.Rule:
    """Return a rule as the domain knows it."""
    return rules.Rule(
        least=row.severity, takes=rules.Takes(row.takes), runs=frozenset(row.runs), classes=frozenset(row.classes),
        hours=Hours.parse(row.hours, row.time_zone), remind_s=row.remind_s,
    )  # fmt: skip


def as_call(row: Call) -> rules.Call:
    """Return a call as the domain knows it."""
    return rules.Call(subject=row.subject, run=row.run, klass=row.klass, severity=row.severity, loud=row.loud)


def steps_of(row: Rule) -> list[rules.Step]:
    """Return the steps of a rule with the names of those who are switched on."""
    return [
        rules.Step(after_s=step.after_s, transports=tuple(one.name for one in step.transports.all() if one.enabled))
        for step in row.steps.all()
    ]


def rule_words(row: Rule) -> str:
    """Say a rule in one sentence."""
    return rules.words(as_rule(row), steps_of(row))


def windows(now: datetime) -> QuerySet[Window]:
    """Return the maintenance windows that are open or to come."""
    return Window.objects.filter(until__gt=now)


def closed_until(run: str, now: datetime) -> datetime | None:
    """Return until when maintenance keeps us from telling of a run ("" the fleet); None when nothing does."""
    open_ones = Window.objects.filter(begins_at__lte=now, until__gt=now)
    return max((one.until for one in open_ones if not one.runs or run in one.runs), default=None)


def wakers() -> list[Rule]:
    """Return the rules that call somebody for a critical incident of any run, hours aside."""
    return [row for row in rules_in_force() if as_rule(row).wakes_for_anything and _reaches(row)]


def _reaches(row: Rule) -> bool:
    return any(step.transports for step in steps_of(row))


def readiness(now: datetime) -> str:
    """Say in one sentence whether anybody would be called; empty when somebody would be at every hour."""
    if not Transport.objects.filter(enabled=True).exists():
        return "Nobody will be called: there is no transport yet."
    waking = wakers()
    if not waking:
        return "Nobody will be called for every critical incident: no rule takes the pages of all runs."
    gap = first_gap([as_rule(row).hours for row in waking], now)
    return f"Nobody would be called on {gap:%A at %H:%M} UTC: no rule holds then." if gap else ""


def failing(now: datetime) -> Iterable[Message]:
    """Return the messages of the last day that nobody took."""
    return Message.objects.filter(state=MessageState.GIVEN_UP, created_at__gt=now - NEWS_FOR).exclude(
        kind=MessageKind.TEST
    )
