"""The fleet, its nodes, and the ones kept out of training."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.fleet import hot
from controlplane.fleet import queries as nodes
from controlplane.fleet.models import NodeState
from controlplane.quarantine import actions, conflicts
from controlplane.web.present import badges, examples
from controlplane.web.present.fleet import cell, counts
from controlplane.web.read import fleet, node
from controlplane.web.views.common import act, answered, clock, rights


@never_cache
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Show the whole fleet."""
    return render(request, "web/fleet.html", {"nav": "fleet", "topics": "fleet,count", **fleet.state(clock())})


@never_cache
@require_GET
def node_list(request: HttpRequest) -> HttpResponse:
    """List nodes, filtered by state."""
    state, now = request.GET.get("state", ""), clock()
    every = hot.heard(nodes.all_nodes())
    shown = [one for one in every if state not in NodeState.values or one.state == state]
    frozen = conflicts.all_frozen(now)
    cells = [(one, cell(one, now, frozen=one.name in frozen)) for one in shown]
    return render(
        request, "web/nodes.html", {"cells": cells, "counts": counts(every), "state": state, "topics": "count"}
    )


@never_cache
@require_GET
def node_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show one node."""
    facts = node.state(node.load(name), rights(request), clock())
    return render(request, "web/node.html", {"topics": "count", **facts})


@never_cache
@require_GET
def quarantine(request: HttpRequest) -> HttpResponse:
    """List what is kept out of training, and why."""
    now = clock()
    facts = {
        "nav": "quarantine",
        "topics": "count",
        "rows": node.kept_out(rights(request), now),
        "counts": counts(nodes.all_nodes()),
        "last_release": node.last_release(),
        "now": now,
    }
    return render(request, "web/quarantine.html", facts)


@require_POST
def release(request: HttpRequest, name: str) -> HttpResponse:
    """Let a node out of quarantine."""
    trouble = act(request, "release_node", lambda by, now: actions.release(name, by=by, now=now))
    back = "/quarantine/" if "/quarantine/" in request.META.get("HTTP_REFERER", "") else f"/nodes/{name}/"
    return answered(request, trouble, back, "web/parts/trouble.html", dict)


@require_GET
def styleguide(request: HttpRequest) -> HttpResponse:
    """Show every badge, card and empty state, for review by screenshot."""
    families = [(name, list(family.items())) for name, family in badges.FAMILIES.items()]
    return render(request, "web/styleguide.html", {"families": families, **examples.acting(clock())})
