"""What the forms of the page about notifications do: read what was typed, call one action, say how it went."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from django.http import QueryDict

from controlplane.domain.errors import Invalid
from controlplane.incidents import actions as incidents
from controlplane.notify import actions, arranging, queries
from controlplane.notify.arranging import NewRule, NewStep
from controlplane.notify.kinds import KINDS
from controlplane.notify.models import MessageState
from controlplane.runs.queries import run_named
from controlplane.web.present.notifications import STEPS_OFFERED
from controlplane.web.views.common import clock

Outcome = tuple[bool, str]
MINUTE = 60


@dataclass(frozen=True, slots=True)
class Deed:
    """A form's deed and the act that it needs the right for."""

    act: str
    work: Callable[[QueryDict, str, datetime], Outcome]


def _add_transport(form: QueryDict, by: str, now: datetime) -> Outcome:
    kind = form.get("kind", "")
    given = {one.name: form.get(one.name, "") for one in KINDS[kind].fields} if kind in KINDS else {}
    made = arranging.add_transport(form.get("name", ""), kind, given, by, now, person=form.get("person", ""))
    return True, f"{made.name} is there. Test it, and name it in a rule."


def _test(form: QueryDict, _by: str, _now: datetime) -> Outcome:
    transport = queries.transport(_id(form))
    message = actions.test(transport, clock)
    if message.state == MessageState.DELIVERED:
        return True, f"{transport.name} took the test: {queries.proof_words(message)}."
    return False, f"{transport.name} did not take the test: {message.why}."


def _switch_transport(form: QueryDict, by: str, now: datetime) -> Outcome:
    transport, on = queries.transport(_id(form)), form.get("to") == "on"
    arranging.enable_transport(transport, by, now, enabled=on)
    return True, f"{transport.name} is {'on' if on else 'off'} now."


def _remove_transport(form: QueryDict, by: str, now: datetime) -> Outcome:
    transport = queries.transport(_id(form))
    arranging.remove_transport(transport, by, now)
    return True, f"{transport.name} is forgotten with its secrets."


def _add_rule(form: QueryDict, by: str, now: datetime) -> Outcome:
    new = NewRule(
        name=form.get("name", ""), severity=form.get("severity", ""), takes=form.get("takes", ""),
        runs=_names(form, "runs"), classes=_names(form, "classes"), hours=form.get("hours", ""),
        time_zone=form.get("time_zone", "") or "UTC", remind_s=_number(form, "remind_min") * MINUTE, steps=_steps(form),
    )  # fmt: skip
    made = arranging.add_rule(new, by, now)
    return True, f"Rule {made.name} holds from now on."


def _steps(form: QueryDict) -> list[NewStep]:
    """Read the steps that name somebody; one without is left out."""
    return [
        NewStep(after_s=_number(form, f"after_{step}") * MINUTE, transports=_ids(form, f"to_{step}"))
        for step in range(1, STEPS_OFFERED + 1)
        if form.getlist(f"to_{step}")
    ]


def _switch_rule(form: QueryDict, by: str, now: datetime) -> Outcome:
    rule, on = queries.rule(_id(form)), form.get("to") == "on"
    arranging.enable_rule(rule, by, now, enabled=on)
    return True, f"Rule {rule.name} is {'on' if on else 'off'} now."


def _remove_rule(form: QueryDict, by: str, now: datetime) -> Outcome:
    rule = queries.rule(_id(form))
    arranging.remove_rule(rule, by, now)
    return True, f"Rule {rule.name} is gone."


def _open_window(form: QueryDict, by: str, now: datetime) -> Outcome:
    made = arranging.open_window(
        _names(form, "runs"), _number(form, "minutes"), by, now, begins_at=_moment(form, "begins_at"),
        why=form.get("why", ""),
    )  # fmt: skip
    return True, f"Nobody is told from {made.begins_at:%Y-%m-%d %H:%M} to {made.until:%Y-%m-%d %H:%M} UTC."


def _close_window(form: QueryDict, by: str, now: datetime) -> Outcome:
    arranging.close_window(queries.window(_id(form)), by, now)
    return True, "The maintenance has ended: what is open is told now."


def _silence(form: QueryDict, by: str, now: datetime) -> Outcome:
    name = form.get("run", "").strip()
    made = incidents.silence(run_named(name) if name else None, _number(form, "minutes"), by, now)
    return True, f"Nobody is woken until {made.until:%H:%M} UTC."


def _add_sign(form: QueryDict, by: str, now: datetime) -> Outcome:
    made = arranging.add_dead_man(form.get("name", ""), form.get("url", ""), _number(form, "every_s"), by, now)
    return True, f"{made.name} hears from us every {made.every_s:.0f} s from now on."


def _remove_sign(form: QueryDict, by: str, now: datetime) -> Outcome:
    row = queries.dead_man(_id(form))
    arranging.remove_dead_man(row, by, now)
    return True, f"{row.name} hears from us no more: tell it, or it raises the alarm."


def _id(form: QueryDict) -> int:
    text = form.get("id", "")
    if not (text.isdecimal() and text.isascii() and len(text) < 19):  # noqa: PLR2004 - digits of a 64-bit number
        raise Invalid("id", "must be a number")
    return int(text)


def _ids(form: QueryDict, name: str) -> list[int]:
    texts = form.getlist(name)
    if not all(text.isdecimal() and text.isascii() and len(text) < 19 for text in texts):  # noqa: PLR2004
        raise Invalid(name, "must be numbers of transports")
    return [int(text) for text in texts]


def _names(form: QueryDict, name: str) -> list[str]:
    return [part.strip() for part in form.get(name, "").split(",") if part.strip()]


def _number(form: QueryDict, name: str) -> float:
    text = form.get(name, "").strip() or "0"
    try:
        value = float(text)
    except ValueError:
        raise Invalid(name, "must be a number") from None
    if not abs(value) < 1e9:  # noqa: PLR2004 - also refuses what is no number; each action has limits of its own
        raise Invalid(name, "must be a number of sensible size")
    return value


def _moment(form: QueryDict, name: str) -> datetime | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(name, "must be a day and time as 2026-11-30T22:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


DEEDS: Mapping[str, Deed] = MappingProxyType({
    "add-transport": Deed("manage_notifications", _add_transport),
    "test": Deed("manage_notifications", _test),
    "switch-transport": Deed("manage_notifications", _switch_transport),
    "remove-transport": Deed("manage_notifications", _remove_transport),
    "add-rule": Deed("manage_notifications", _add_rule),
    "switch-rule": Deed("manage_notifications", _switch_rule),
    "remove-rule": Deed("manage_notifications", _remove_rule),
    "open-window": Deed("maintain", _open_window),
    "close-window": Deed("maintain", _close_window),
    "silence": Deed("silence", _silence),
    "add-sign": Deed("manage_notifications", _add_sign),
    "remove-sign": Deed("manage_notifications", _remove_sign),
})  # fmt: skip
