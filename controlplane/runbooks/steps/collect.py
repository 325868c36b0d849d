"""Take stacks from every rank that may still answer, before anything is killed.

A kill destroys the evidence. A rank or node that does not answer is an answer too
(H-21), so the step is over when all have answered or the budget is spent. A crash
has named itself already: it gets a shorter budget than a hang, and none once the
peers of the dead rank begin to end, for stacks of their end say nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from controlplane.domain.diagnosis.stacks import sentence
from controlplane.domain.recovery.actions import COLLECT_BUDGET_S
from controlplane.domain.recovery.acts import Do
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Node
from controlplane.incidents import queries as incidents
from controlplane.incidents import stacks
from controlplane.incidents.stacks import Asked
from controlplane.runbooks.outcomes import Done, Outcome, Wait
from controlplane.runbooks.steps import ending
from controlplane.runbooks.steps.base import Step, answer, finished, succeeded
from controlplane.runbooks.turn import Turn

CRASH_BUDGET_S = 0.7
TRAVEL_S = 0.3
"""Part of the budget that the way there and back takes; agents get the rest."""
MAX_DIGITS = 9
WHAT = ("stacks", "collectives")
UNSURE_CLASSES = frozenset({"hang", "restore_stall"})
"""Classes whose cause the stacks may tell; the others have named themselves."""


class Collect(Step):
    """R-02's first half, also run for a crash."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the agents of the attempt's nodes that have been heard lately."""
        attempt = turn.broken
        nodes = attempt.nodes if attempt else []
        budget = COLLECT_BUDGET_S if turn.incident.klass in UNSURE_CLASSES else CRASH_BUDGET_S
        asked = [node.name for node in fleet.nodes_for(nodes) if _speaks(node, turn)]
        given = round(budget - TRAVEL_S, 3)
        args = {"run": turn.run.name, "attempt": turn.execution.attempt, "what": list(WHAT), "budget_s": given}
        for name in asked:
            turn.command(name, "collect", args, within_s=budget, mark=name)
        turn.act(Do.COLLECT, "stacks are taken before anything is stopped", args={"nodes": asked})
        return {"nodes": asked, "silent": [name for name in nodes if name not in asked], "budget_s": budget}

    def look(self, turn: Turn) -> Outcome:
        """Be done when all have answered or the budget is spent."""
        commands = turn.commands()
        over = turn.tried.started_at + timedelta(seconds=turn.tried.intent.get("budget_s", COLLECT_BUDGET_S))
        if turn.now < over and not all(finished(command) for command in commands) and not _ends(turn):
            return Wait(over, turn.spec.waits_for)
        return Done(_found(turn))

    def expired(self, turn: Turn) -> Outcome:
        """Go on with what there is: collecting never stands in the way of the rest."""
        return Done(_found(turn))


def _ends(turn: Turn) -> bool:
    if turn.incident.klass != ending.CRASH:
        return False
    diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
    return diagnosis is not None and ending.begun(turn, diagnosis)


def _found(turn: Turn) -> dict[str, Any]:
    """Count the answers, and keep with the incident who stood where, if any rank could still be looked at."""
    attempt = turn.execution.attempt
    groups = stacks.look(turn.run.name, attempt, since=turn.tried.started_at, asked=_asked(turn))
    if any(group.frames for group in groups):
        stacks.keep(turn.incident, attempt, groups, turn.now)
        key = f"stacks:{turn.execution.step_index}"
        turn.tell("finding", sentence(groups), key=key, data={"attempt": attempt})
    return _tally(turn)


def _asked(turn: Turn) -> dict[int, Asked]:
    """Give what the results say of each rank; those of nodes that gave none did not answer."""
    heard = {command.node.name for command in turn.commands() if succeeded(command)}
    asked = {rank: Asked() for rank in _ranks_on([name for name in _nodes(turn) if name not in heard], turn)}
    for rank, state in _ranks(turn).items():
        if str(rank).isdecimal() and len(str(rank)) <= MAX_DIGITS and isinstance(state, dict):
            asked[int(rank)] = Asked(str(state.get("proc_state") or "")[:1], state.get("answered") is True)
    return asked


def _nodes(turn: Turn) -> list[str]:
    return list(turn.broken.nodes) if turn.broken else []


def _ranks_on(names: Sequence[str], turn: Turn) -> list[int]:
    """Give the ranks of some nodes: they are numbered in the order of the nodes, alike many on each."""
    nodes, world = _nodes(turn), turn.broken.world_size if turn.broken else 0
    each = world // len(nodes) if nodes and world % len(nodes) == 0 else 0
    return [nodes.index(name) * each + place for name in names for place in range(each)]


def _ranks(turn: Turn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for command in turn.commands():
        told = answer(command).get("ranks") if succeeded(command) else None
        found |= told if isinstance(told, dict) else {}
    return found


def _speaks(node: Node, turn: Turn) -> bool:
    if node.last_seen_at is None or node.identity_conflict:
        return False
    return (turn.now - node.last_seen_at).total_seconds() < turn.policy.silence_s


def _tally(turn: Turn) -> dict[str, Any]:
    ranks = {
        str(rank)[:MAX_DIGITS]: bool(isinstance(state, dict) and state.get("answered"))
        for rank, state in _ranks(turn).items()
    }
    attempt = turn.broken
    asked = max(len(ranks), attempt.world_size if attempt else 0)
    mute = sorted(command.node.name for command in turn.commands() if not succeeded(command))
    return {"answered": sum(ranks.values()), "asked": asked, "mute": mute,
            "unanswered": sorted(rank for rank, answered in ranks.items() if not answered)}  # fmt: skip
