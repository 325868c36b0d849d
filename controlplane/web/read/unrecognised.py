"""What nobody has a signature for, as pages and the REST API show it."""

from typing import Any

from controlplane.domain.detection.unrecognised import MAX_NODES
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.runs.times import moment
from controlplane.web.present import words

MAX_SHOWN = 8


def shown(run: Run | None, node: str = "") -> dict[str, Any]:
    """Read the section of a run's page, a node's, or the fleet's: the newest kinds, and how many more there are."""
    known = kinds(run, node)
    return {
        "unrecognised": [{**one, "nodes": nodes(one["nodes"])} for one in known[:MAX_SHOWN]],
        "unrecognised_more": max(0, len(known) - MAX_SHOWN),
    }


def kinds(run: Run | None, node: str = "") -> list[dict[str, Any]]:
    """Read every kind, or those of one node, with its times as moments, newest first."""
    return [
        {
            "name": one.name, "said": one.said, "count": one.count, "nodes": one.nodes, "node": one.node,
            "first_at": moment(one.first_at), "last_at": moment(one.last_at),
        }
        for one in runs.unrecognised(run, node)
    ]  # fmt: skip


def nodes(count: int) -> str:
    """Say on how many nodes it was; names are not remembered without end."""
    return f"{words.number(count)} or more nodes" if count >= MAX_NODES else words.plural(count, "node")
