"""Whom to tell of what: transports, rules, silences, maintenance, signs of life, and every message."""

from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Status

from controlplane.incidents import actions as incidents
from controlplane.notify import actions, arranging, queries
from controlplane.notify.arranging import NewRule, NewStep
from controlplane.notify.models import DeadMan, Message, Rule, Transport, Window
from controlplane.runs.queries import run_named
from controlplane.web.api.auth import person
from controlplane.web.api.notify_schemas import (
    MessageOut,
    ReadyOut,
    RuleIn,
    RuleOut,
    SignIn,
    SignOut,
    SilenceIn,
    SilenceOut,
    SwitchIn,
    TransportIn,
    TransportOut,
    WindowIn,
    WindowOut,
)
from controlplane.web.api.paging import DEFAULT_LIMIT, MAX_ID, Id, Limit, Page, page

router = Router(tags=["notify"])

State = Literal["pending", "sending", "failed", "delivered", "given_up", "suppressed"]
MANAGE = "manage_notifications"


def _now() -> datetime:
    return datetime.now(UTC)


@router.get("/ready", response=ReadyOut)
def get_ready(request: HttpRequest) -> dict[str, Any]:
    """Say whether somebody would be called for a critical incident of any run at every hour of the week."""
    person(request, "view")
    why_not = queries.readiness(_now())
    return {"ready": not why_not, "why_not": why_not}


@router.get("/messages", response=Page[MessageOut])
def list_messages(
    request: HttpRequest, state: State | None = None, after: Id | None = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List messages, newest first; `after` is a message's id."""
    person(request, "view")
    rows = queries.messages().filter(pk__lt=after or MAX_ID)
    return page(rows.filter(state=state) if state else rows, limit, lambda message: message.pk)


@router.get("/transports", response=list[TransportOut])
def list_transports(request: HttpRequest) -> list[Transport]:
    """List all transports, without their secrets."""
    person(request, "view")
    return list(Transport.objects.all())


@router.post("/transports", response={201: TransportOut})
def add_transport(request: HttpRequest, new: TransportIn) -> Status[Transport]:
    """Add a transport; what is secret of it is never shown again."""
    by = person(request, MANAGE)
    made = arranging.add_transport(new.name, new.kind, new.settings, by.username, _now(), person=new.person)
    return Status(201, made)


@router.post("/transports/{transport_id}/test", response=MessageOut)
def test_transport(request: HttpRequest, transport_id: Id) -> Message:
    """Send a test message now and show what the receiver answered."""
    person(request, MANAGE)
    return actions.test(queries.transport(transport_id), _now)


@router.post("/transports/{transport_id}/switch", response=TransportOut)
def switch_transport(request: HttpRequest, transport_id: Id, to: SwitchIn) -> Transport:
    """Switch a transport on or off."""
    by = person(request, MANAGE)
    arranging.enable_transport(queries.transport(transport_id), by.username, _now(), enabled=to.enabled)
    return queries.transport(transport_id)


@router.post("/transports/{transport_id}/remove", response={204: None})
def remove_transport(request: HttpRequest, transport_id: Id) -> Status[None]:
    """Forget a transport and its secrets; refused while a rule relies on it."""
    by = person(request, MANAGE)
    arranging.remove_transport(queries.transport(transport_id), by.username, _now())
    return Status(204, None)


@router.get("/rules", response=list[RuleOut])
def list_rules(request: HttpRequest) -> list[Rule]:
    """List all rules, each also in words."""
    person(request, "view")
    return list(Rule.objects.prefetch_related("steps__transports"))


@router.post("/rules", response={201: RuleOut})
def add_rule(request: HttpRequest, new: RuleIn) -> Status[Rule]:
    """Add a rule with its steps."""
    by, facts = person(request, MANAGE), new.dict()
    steps = [NewStep(**step) for step in facts.pop("steps")]
    return Status(201, arranging.add_rule(NewRule(**facts, steps=steps), by.username, _now()))


@router.post("/rules/{rule_id}/switch", response=RuleOut)
def switch_rule(request: HttpRequest, rule_id: Id, to: SwitchIn) -> Rule:
    """Switch a rule on or off."""
    by = person(request, MANAGE)
    arranging.enable_rule(queries.rule(rule_id), by.username, _now(), enabled=to.enabled)
    return queries.rule(rule_id)


@router.post("/rules/{rule_id}/remove", response={204: None})
def remove_rule(request: HttpRequest, rule_id: Id) -> Status[None]:
    """Forget a rule."""
    by = person(request, MANAGE)
    arranging.remove_rule(queries.rule(rule_id), by.username, _now())
    return Status(204, None)


@router.post("/silences", response={201: SilenceOut})
def silence(request: HttpRequest, new: SilenceIn) -> Status[dict[str, Any]]:
    """Wake nobody about a run, or about anything; pages become notes until it ends by itself."""
    by = person(request, "silence")
    made = incidents.silence(run_named(new.run) if new.run else None, new.minutes, by.username, _now())
    return Status(201, {"run": new.run, "by": made.by, "until": made.until})


@router.get("/windows", response=list[WindowOut])
def list_windows(request: HttpRequest) -> list[Window]:
    """List maintenance that goes on or is planned."""
    person(request, "view")
    return list(queries.windows(_now()))


@router.post("/windows", response={201: WindowOut})
def open_window(request: HttpRequest, new: WindowIn) -> Status[Window]:
    """Plan maintenance: nobody is told until it ends, and then of what is still open."""
    by = person(request, "maintain")
    begins_at = new.begins_at.replace(tzinfo=new.begins_at.tzinfo or UTC) if new.begins_at else None
    made = arranging.open_window(new.runs, new.minutes, by.username, _now(), begins_at=begins_at, why=new.why)
    return Status(201, made)


@router.post("/windows/{window_id}/close", response=WindowOut)
def close_window(request: HttpRequest, window_id: Id) -> Window:
    """End maintenance before its time."""
    by = person(request, "maintain")
    arranging.close_window(queries.window(window_id), by.username, _now())
    return queries.window(window_id)


@router.get("/signs", response=list[SignOut])
def list_signs(request: HttpRequest) -> list[DeadMan]:
    """List the outside addresses that hear from us while all is well."""
    person(request, "view")
    return list(DeadMan.objects.all())


@router.post("/signs", response={201: SignOut})
def add_sign(request: HttpRequest, new: SignIn) -> Status[DeadMan]:
    """Give an outside address a sign of life every so many seconds."""
    by = person(request, MANAGE)
    return Status(201, arranging.add_dead_man(new.name, new.url, new.every_s, by.username, _now()))


@router.post("/signs/{sign_id}/remove", response={204: None})
def remove_sign(request: HttpRequest, sign_id: Id) -> Status[None]:
    """Give no sign of life there any more."""
    by = person(request, MANAGE)
    arranging.remove_dead_man(queries.dead_man(sign_id), by.username, _now())
    return Status(204, None)
