"""What a person may ask of one node: a support bundle, or a check that the node's own file names.

The node decides: a refusal, like any outcome, stands with the command.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import QuerySet

from controlplane.chronicle import actions as chronicle
from controlplane.fleet.commands import send_command
from controlplane.fleet.models import Command, Node

WITHIN = timedelta(minutes=10)
"""A node that is away for longer is not asked any more."""


def bundle(node: Node, run: str | None, attempt: int | None, by: str, now: datetime) -> Command:
    """Have a node gather what a person needs to look into its part of an attempt (None: of all it knows)."""
    args = {name: value for name, value in (("run", run), ("attempt", attempt)) if value is not None}
    told = f"{by} asked node {node.name} for a support bundle."
    return _ask(node, "support.bundle", args, told=told, by=by, now=now)


def check(node: Node, name: str, budget_s: float, by: str, now: datetime) -> Command:
    """Have a node run a check.

    Raises:
        Invalid: the name or the budget is out of bounds.
    """
    told = f"{by} asked node {node.name} to run the check {name}."
    return _ask(node, "check.run", {"check": name, "budget_s": budget_s}, told=told, by=by, now=now)


def asked(node: Node) -> QuerySet[Command]:
    """Return the commands of a node, newest first."""
    return Command.objects.filter(node=node).select_related("node").order_by("-created_at", "-pk")


def _ask(node: Node, kind: str, args: Mapping[str, Any], *, told: str, by: str, now: datetime) -> Command:
    key = f"asked:{uuid4().hex}"
    with transaction.atomic():
        command = send_command(node.name, kind, args, key=key, deadline=now + WITHIN, now=now)
        details = {"node": node.name, "command": str(command.pk)}
        chronicle.tell("fleet", "action", told, at=now, now=now, actor_kind="person", actor=by, data=details)
    return command
