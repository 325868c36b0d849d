"""Nodes, their ledger, and the tokens that let new ones in."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status

from controlplane.chronicle import actions as chronicle
from controlplane.domain.errors import Invalid
from controlplane.fleet import actions as fleet
from controlplane.fleet import asking, queries
from controlplane.fleet.models import Command, Node
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine.models import LedgerEntry
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import BundleIn, CheckIn, EnrolmentIn, ReasonIn, ReleaseIn
from controlplane.web.api.node_schemas import CommandOut, EnrolmentOut, LedgerOut, NodeOut, RevokedOut
from controlplane.web.api.paging import DEFAULT_LIMIT, MAX_ID, Id, Limit, Name, Page, page

MAX_TTL_S = 30 * 86_400

router = Router(tags=["nodes"])
enrolment = Router(tags=["nodes"])


@router.get("", response=Page[NodeOut])
def list_nodes(
    request: HttpRequest, state: Name | None = None, after: Name | None = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List nodes by name."""
    person(request, "view")
    rows = Node.objects.filter(name__gt=after or "").order_by("name")
    return page(rows.filter(state=state) if state else rows, limit, lambda node: node.name)


@router.get("/{name}", response=NodeOut)
def get_node(request: HttpRequest, name: Name) -> Node:
    """Show one node."""
    person(request, "view")
    return queries.node(name)


@router.get("/{name}/ledger", response=Page[LedgerOut])
def get_ledger(
    request: HttpRequest, name: Name, after: Id | None = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List the moves of a node, newest first."""
    person(request, "view")
    rows = LedgerEntry.objects.filter(node=queries.node(name), pk__lt=after or MAX_ID).order_by("-pk")
    return page(rows, limit, lambda entry: entry.pk)


@router.get("/{name}/commands", response=list[CommandOut])
def list_commands(request: HttpRequest, name: Name, limit: Limit = DEFAULT_LIMIT) -> list[Command]:
    """List what the node's agent was asked, newest first, with the outcomes."""
    person(request, "view")
    return list(asking.asked(queries.node(name))[:limit])


@router.post("/{name}/support-bundle", response={202: CommandOut})
def ask_for_bundle(request: HttpRequest, name: Name, about: BundleIn | None = None) -> Status[Command]:
    """Have the node gather what a person needs to look into an attempt; the file stays on the node."""
    by, about = person(request, "bundle_node"), about or BundleIn()
    made = asking.bundle(queries.node(name), about.run, about.attempt, by.username, datetime.now(UTC))
    return Status(202, made)


@router.post("/{name}/check", response={202: CommandOut})
def ask_for_check(request: HttpRequest, name: Name, wanted: CheckIn) -> Status[Command]:
    """Have the node run a check that its own agent.toml names."""
    by = person(request, "check_node")
    made = asking.check(queries.node(name), wanted.check, wanted.budget_s, by.username, datetime.now(UTC))
    return Status(202, made)


@router.post("/{name}/quarantine", response=NodeOut)
def put_into_quarantine(request: HttpRequest, name: Name, why: ReasonIn) -> Node:
    """Keep a node out of training; its running attempt is not touched."""
    by = person(request, "quarantine_node")
    now = datetime.now(UTC)
    quarantine.quarantine(queries.node(name).name, why.reason, actor_kind="person", actor=by.username, now=now)
    return queries.node(name)


@router.post("/{name}/release", response=NodeOut)
def release(request: HttpRequest, name: Name, how: ReleaseIn | None = None) -> Node:
    """Take a node out of quarantine."""
    by = person(request, "release_node")
    how = how or ReleaseIn()
    quarantine.release(queries.node(name).name, how.to, by=by.username, reason=how.reason, now=datetime.now(UTC))
    return queries.node(name)


@router.post("/{name}/hold", response=NodeOut)
def hold(request: HttpRequest, name: Name) -> Node:
    """Keep automation's hands off a node."""
    return _set_hold(person(request, "hold_node").username, name, held=True)


@router.post("/{name}/resume", response=NodeOut)
def lift_hold(request: HttpRequest, name: Name) -> Node:
    """Lift the hold on a node."""
    return _set_hold(person(request, "resume_node").username, name, held=False)


@router.post("/{name}/revoke", response=RevokedOut)
def revoke(request: HttpRequest, name: Name) -> dict[str, Any]:
    """End every token of a node's agent at once; the node may then be enrolled anew."""
    by, now = person(request, "revoke_node").username, datetime.now(UTC)
    sentence = f"{by} revoked the tokens of node {name}."
    with transaction.atomic():
        ended = fleet.revoke(name, now)
        chronicle.tell("fleet", "action", sentence, at=now, now=now, actor_kind="person", actor=by, data={"node": name})
    return {"revoked": ended}


def _set_hold(by: str, name: str, *, held: bool) -> Node:
    sentence = f"{by} put a hold on node {name}." if held else f"{by} lifted the hold on node {name}."
    now = datetime.now(UTC)
    with transaction.atomic():
        node = fleet.hold_node(name, held=held)
        kind = "hold" if held else "resume"
        chronicle.tell("fleet", kind, sentence, at=now, now=now, actor_kind="person", actor=by, data={"node": name})
    return node


@enrolment.post("", response={201: EnrolmentOut})
def create_enrolment_token(request: HttpRequest, wanted: EnrolmentIn | None = None) -> Status[dict[str, Any]]:
    """Make a short-lived token that enrols new nodes."""
    by = person(request, "enrol_node")
    wanted = wanted or EnrolmentIn()
    if not 1 <= wanted.ttl_s <= MAX_TTL_S:
        raise Invalid("ttl_s", f"must be between 1 and {MAX_TTL_S}")
    now, ttl = datetime.now(UTC), timedelta(seconds=wanted.ttl_s)
    token = fleet.create_enrolment_token(by.username, now, uses=wanted.uses, ttl=ttl)
    return Status(201, {"token": token, "uses": wanted.uses, "expires_at": now + ttl})
