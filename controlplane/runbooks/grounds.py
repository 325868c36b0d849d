"""What a question to a person rests on, and what has become of that since it was asked."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.fleet import queries as fleet
from controlplane.incidents import queries as incidents
from controlplane.incidents.models import IncidentState
from controlplane.runbooks import left_out
from controlplane.runbooks.models import Execution
from controlplane.runs import queries as runs
from controlplane.runs.models import Attempt

World = dict[str, Any]


def of(execution: Execution, now: datetime) -> World:
    """Note the diagnosis, whom it leaves out, and how the attempt's nodes stand."""
    diagnosis = incidents.diagnosis(execution.incident, now, attempt=execution.attempt)
    attempt = Attempt.objects.filter(run_id=execution.run_id, number=execution.attempt).first()
    out = sorted(left_out.reasons(execution, diagnosis, now))
    return {
        "class": diagnosis.klass if diagnosis else "",
        "title": diagnosis.title if diagnosis else "",
        "exclude": out,
        "nodes": _standing([*(attempt.nodes if attempt else []), *out]),
    }


def _standing(names: list[str]) -> dict[str, str]:
    return {node.name: f"{node.state}, held" if node.held else str(node.state) for node in fleet.nodes_for(names)}


def wide(execution: Execution, world: Mapping[str, Any]) -> bool:
    """Whether more of the fleet is left out than one person may decide."""
    return left_out.too_many(execution, world["class"], len(world["exclude"]))


def over(execution: Execution, now: datetime) -> str:
    """Say why there is nothing left to approve, "" while there is."""
    if execution.incident.state == IncidentState.RESOLVED:
        return "the incident is resolved"
    newest = runs.newest_attempt(execution.run)
    ours = execution.context.get("new_attempt") or execution.attempt
    if newest is not None and newest.number > ours:
        return f"attempt {newest.number} was launched meanwhile"
    diagnosis = incidents.diagnosis(execution.incident, now, attempt=execution.attempt)
    return "the trouble went away by itself" if diagnosis and diagnosis.cleared_up else ""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Say in clauses what is different from when it was asked; nothing when nothing is.

    A class that only got a more exact name is told in the same words, and changes nothing.
    """
    found = []
    if before.get("class") != after["class"] and before.get("title") != after["title"]:
        found.append(f"the diagnosis is {after['title'] or 'gone'} by now, it was {before.get('title') or 'none'}")
    if before.get("exclude") != after["exclude"]:
        found.append(f"{_names(after['exclude'])} would be left out by now, it was {_names(before.get('exclude'))}")
    known = before.get("nodes") or {}
    moved = sorted(set(known.items()) ^ set(after["nodes"].items()))
    return found + [
        f"node {name} is {after['nodes'].get(name, 'not part')} by now, it was {known.get(name, 'not part')}"
        for name in dict.fromkeys(name for name, _ in moved)
    ]


def _names(names: list[str] | None) -> str:
    return ", ".join(names or []) or "nobody"
