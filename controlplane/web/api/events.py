"""The newest events, for looking over an agent's shoulder."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from controlplane.events import queries
from controlplane.web.api.auth import person
from controlplane.web.api.paging import DEFAULT_LIMIT, Limit, Name
from controlplane.web.api.schemas import EventOut

router = Router(tags=["events"])


@router.get("", response=list[EventOut])
def tail(request: HttpRequest, node: Name | None = None, run: Name | None = None, limit: Limit = DEFAULT_LIMIT) -> Any:
    """Show the newest events of a node or a run, newest first."""
    person(request, "view")
    return queries.tail(node=node, run=run, limit=limit)
