"""What administrators set: transports, rules, maintenance windows and signs of life.

Every limit names its field. A transport that a rule relies on cannot be taken away.
Every change stands in the fleet's chronicle with its author.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from controlplane.access import queries
from controlplane.domain.errors import Conflict, Invalid, NotFound, Refused
from controlplane.domain.notify.hours import Hours, known_zone
from controlplane.domain.notify.rules import SEVERITIES, Takes
from controlplane.notify import changes, kinds
from controlplane.notify.models import DeadMan, Rule, RuleStep, Transport, Window
from controlplane.notify.queries import rule_words
from controlplane.notify.secrets import seal

MAX_NAME = 60
MAX_TRANSPORTS = 50
MAX_RULES = 50
MAX_WINDOWS = 100
MAX_DEAD_MEN = 5
MAX_STEPS = 5
MAX_NAMED = 50
"""Runs or classes that one rule or window names."""
MAX_NAMED_LENGTH = 100
MAX_DELAY_S = 24 * 3600
MAX_WINDOW = timedelta(days=7)
FARTHEST = timedelta(days=90)
LEAST_PING_S = 5
MOST_PING_S = 3600
MAX_WHY = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStep:
    """A step of a rule that is to be made; `transports` are ids."""

    after_s: float
    transports: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """A rule that is to be made."""

    name: str
    severity: str = "critical"
    takes: str = "loud"
    runs: Sequence[str] = ()
    classes: Sequence[str] = ()
    hours: str = ""
    time_zone: str = "UTC"
    remind_s: float = 0.0
    steps: Sequence[NewStep] = field(default_factory=tuple)


@transaction.atomic
def add_transport(
    name: str, kind: str, given: Mapping[str, str], by: str, now: datetime, *, person: str = ""
) -> Transport:
    """Add a way to reach somebody; `person` answers for the acknowledge links in its messages.

    Raises:
        Invalid: naming the field.
        Conflict: the name is taken.
        Refused: there are too many.
    """
    checked = kinds.check(kind, given)
    _room(Transport.objects.count(), MAX_TRANSPORTS, "transports")
    made = Transport(
        name=_name(name), kind=kind, person=_person(person), place=checked.place[:300],
        settings=dict(checked.public), secret=seal(checked.secret), created_at=now, created_by=by,
    )  # fmt: skip
    _saved(made, name)
    changes.told(by, f"added the transport {made.name}, which leads to {made.place}", now)
    return made


@transaction.atomic
def enable_transport(transport: Transport, by: str, now: datetime, *, enabled: bool) -> None:
    """Switch a transport on or off; off, it is told nothing."""
    if Transport.objects.filter(pk=transport.pk).exclude(enabled=enabled).update(enabled=enabled):
        changes.switched(by, f"the transport {transport.name}", now, on=enabled)


@transaction.atomic
def remove_transport(transport: Transport, by: str, now: datetime) -> None:
    """Forget a transport and its secrets; what it sent stays on record.

    Raises:
        Refused: a rule relies on it.
    """
    using = list(Rule.objects.filter(steps__transports=transport).distinct().values_list("name", flat=True))
    if using:
        raise Refused(f"rule {' and '.join(using)} relies on {transport.name}: change it first")
    transport.delete()
    changes.told(by, f"removed the transport {transport.name}", now)


@transaction.atomic
def add_rule(new: NewRule, by: str, now: datetime) -> Rule:
    """Add a rule with its steps.

    Raises:
        Invalid: naming the field.
        Conflict: the name is taken.
        Refused: there are too many.
    """
    _check_rule(new)
    _room(Rule.objects.count(), MAX_RULES, "rules")
    rule = Rule(
        name=_name(new.name), severity=new.severity, takes=new.takes, runs=_named("runs", new.runs),
        classes=_named("classes", new.classes), hours=_hours(new.hours, new.time_zone), time_zone=new.time_zone,
        remind_s=_delay("remind_s", new.remind_s), created_at=now, created_by=by,
    )  # fmt: skip
    _saved(rule, new.name)
    for index, step in enumerate(new.steps):
        _add_step(rule, index, step)
    changes.told(by, f"added the rule {rule.name}: {rule_words(rule)}", now)
    return rule


def _check_rule(new: NewRule) -> None:
    if new.severity not in SEVERITIES:
        raise Invalid("severity", f"must be one of {', '.join(SEVERITIES)}")
    if new.takes not in list(Takes):
        raise Invalid("takes", f"must be one of {', '.join(Takes)}")
    if not 0 < len(new.steps) <= MAX_STEPS:
        raise Invalid("steps", f"must be 1 to {MAX_STEPS}")


def _add_step(rule: Rule, index: int, step: NewStep) -> None:
    wanted = set(step.transports)
    found = list(Transport.objects.filter(pk__in=wanted))
    if not wanted or len(found) != len(wanted):
        raise Invalid("transports", f"step {index + 1} must name transports that exist")
    made = RuleStep.objects.create(rule=rule, index=index, after_s=_delay("after_s", step.after_s))
    made.transports.set(found)


@transaction.atomic
def enable_rule(rule: Rule, by: str, now: datetime, *, enabled: bool) -> None:
    """Switch a rule on or off; off, it wants nothing, and what it has begun goes no further."""
    if Rule.objects.filter(pk=rule.pk).exclude(enabled=enabled).update(enabled=enabled):
        changes.switched(by, f"the rule {rule.name}", now, on=enabled)


@transaction.atomic
def remove_rule(rule: Rule, by: str, now: datetime) -> None:
    """Forget a rule; what it told stays on record."""
    changes.told(by, f"removed the rule {rule.name}: {rule_words(rule)}", now)
    rule.delete()


@transaction.atomic
def open_window(
    runs: Sequence[str], minutes: float, by: str, now: datetime, *, begins_at: datetime | None = None, why: str = ""
) -> Window:
    """Tell nobody of these runs (none named: of anything) for some minutes; it ends by itself.

    Raises:
        Invalid: naming the field.
        Refused: there are too many.
    """
    begin = begins_at or now
    if not 0 < minutes <= MAX_WINDOW / timedelta(minutes=1):
        raise Invalid("minutes", f"must be above 0 and at most {MAX_WINDOW // timedelta(minutes=1)}")
    if not now - timedelta(minutes=1) <= begin <= now + FARTHEST:
        raise Invalid("begins_at", f"must be from now to {FARTHEST.days} days ahead")
    _room(Window.objects.filter(until__gt=now).count(), MAX_WINDOWS, "maintenance windows")
    made = Window.objects.create(
        runs=_named("runs", runs), begins_at=begin, until=begin + timedelta(minutes=minutes),
        why=_short("why", why, MAX_WHY), by=by,
    )  # fmt: skip
    changes.opened(made, now)
    return made


@transaction.atomic
def close_window(window: Window, by: str, now: datetime) -> None:
    """End a window before its time.

    Raises:
        Conflict: it has ended.
    """
    if not Window.objects.filter(pk=window.pk, until__gt=now).update(until=now):
        raise Conflict("this maintenance window has ended")
    changes.closed(window, by, now)


@transaction.atomic
def add_dead_man(name: str, url: str, every_s: float, by: str, now: datetime) -> DeadMan:
    """Give an outside address a sign of life every so many seconds.

    Raises:
        Invalid: naming the field.
        Conflict: the name is taken.
        Refused: there are too many.
    """
    if not LEAST_PING_S <= every_s <= MOST_PING_S:
        raise Invalid("every_s", f"must be {LEAST_PING_S} to {MOST_PING_S} seconds")
    parts = kinds.web_address(_short("url", url, kinds.MAX_VALUE))
    _room(DeadMan.objects.count(), MAX_DEAD_MEN, "signs of life")
    made = DeadMan(
        name=_name(name), place=f"{parts.scheme}://{parts.hostname}/…"[:300], secret=seal({"url": url.strip()}),
        every_s=every_s, next_at=now, created_by=by,
    )  # fmt: skip
    _saved(made, name)
    changes.told(by, f"has signs of life given to {made.name} every {made.every_s:.0f} s", now)
    return made


@transaction.atomic
def remove_dead_man(row: DeadMan, by: str, now: datetime) -> None:
    """Give no sign of life there any more; tell the outside service first, or it raises the alarm."""
    row.delete()
    changes.told(by, f"has no more signs of life given to {row.name}", now)


def _saved(row: Transport | Rule | DeadMan, name: str) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"there is a {row._meta.verbose_name} named {name.strip()} already") from None  # noqa: SLF001


def _room(there: int, most: int, what: str) -> None:
    if there >= most:
        raise Refused(f"there are {most} {what} already, which is the most: remove one first")


def _name(name: str) -> str:
    said = _short("name", name, MAX_NAME)
    if not said:
        raise Invalid("name", "must not be empty")
    return said


def _short(field_name: str, text: str, most: int) -> str:
    said = text.strip()
    if len(said) > most:
        raise Invalid(field_name, f"must be at most {most} characters")
    if said and not said.isprintable():
        raise Invalid(field_name, "must hold no line breaks or control characters")
    return said


def _named(field_name: str, names: Sequence[str]) -> list[str]:
    said = sorted({_short(field_name, name, MAX_NAMED_LENGTH) for name in names} - {""})
    if len(said) > MAX_NAMED:
        raise Invalid(field_name, f"must be at most {MAX_NAMED} names")
    return said


def _person(name: str) -> str:
    """Name somebody who can sign in: whoever holds a link that was sent to them speaks for them."""
    said = _short("person", name, 150)
    try:
        return queries.person(said).username if said else ""
    except NotFound as error:
        raise Invalid("person", str(error)) from None


def _hours(text: str, zone: str) -> str:
    try:
        known_zone(zone)
    except ValueError as error:
        raise Invalid("time_zone", str(error)) from None
    try:
        return Hours.parse(_short("hours", text, 300), zone).text
    except ValueError as error:
        raise Invalid("hours", str(error)) from None


def _delay(field_name: str, seconds: float) -> float:
    if not 0 <= seconds <= MAX_DELAY_S:
        raise Invalid(field_name, f"must be 0 to {MAX_DELAY_S} seconds")
    return seconds
