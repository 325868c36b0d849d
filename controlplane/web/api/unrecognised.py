"""Lines and codes that look like trouble and are in no signature."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from controlplane.runs import queries as runs
from controlplane.web.api.auth import person
from controlplane.web.api.paging import DEFAULT_LIMIT, Limit, Name
from controlplane.web.read import unrecognised

router = Router(tags=["events"])


class UnrecognisedOut(Schema):
    """One kind: a code, or lines with the same words; `nodes` counts up to 32, `said` and `node` are the newest."""

    name: str
    said: str
    count: int
    nodes: int
    node: str
    first_at: datetime
    last_at: datetime


@router.get("", response=list[UnrecognisedOut])
def list_unrecognised(
    request: HttpRequest, run: Name | None = None, limit: Limit = DEFAULT_LIMIT
) -> list[dict[str, Any]]:
    """Show what no signature knows in the logs of a run's nodes and ranks, or of all nodes, newest first."""
    person(request, "view")
    return unrecognised.kinds(runs.run_named(run) if run else None)[:limit]
