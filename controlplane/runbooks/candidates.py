"""The nodes that an attempt may be launched on, as the ledger and their last words show them.

A node that is lost was still heard a moment ago, so its age alone says nothing yet.
Of the nodes that were in the trouble only those count as alive that have said
something since it began; collecting asks each of them for just that.
"""

from controlplane.domain.recovery.nodes import Candidate
from controlplane.fleet import queries as fleet
from controlplane.fleet import scheduler
from controlplane.fleet.models import Node
from controlplane.runbooks.turn import Turn
from controlplane.runs import queries as runs
from controlplane.runs.models import Attempt, AttemptState, Run
from controlplane.runs.times import seconds


def candidates(turn: Turn, *, troubled: list[str], began: float) -> list[Candidate]:
    """Return every node that takes ranks; `troubled` were in the trouble that began at `began` (seconds)."""
    heard, used = _last_words(turn.run), _used_elsewhere(turn.run)
    closed = scheduler.closed(turn.run.launcher, turn.now)
    found = []
    for node in fleet.all_nodes().filter(head=False):
        at = max(heard.get(node.name, 0.0), seconds(node.last_seen_at) if node.last_seen_at else 0.0)
        doubtful = node.name in troubled and at < began
        age = None if doubtful or not at else max(0.0, seconds(turn.now) - at)
        found.append(_candidate(node, age, used.get(node.name, ""), closed.get(node.name, "")))
    return found


def _candidate(node: Node, age: float | None, busy: str, closed: str) -> Candidate:
    return Candidate(
        name=node.name, state=node.state, last_beat_age_s=age, held=node.held,
        conflict=node.identity_conflict, busy=busy, closed=closed,
        place={key: str(value) for key, value in node.labels.items()},
    )  # fmt: skip


def _last_words(run: Run) -> dict[str, float]:
    """Map each node of the run to its last word of any kind, in seconds since the epoch."""
    view = runs.view(run)
    return {node.name: node.last_at or 0.0 for node in view.nodes} if view else {}


def _used_elsewhere(run: Run) -> dict[str, str]:
    """Map each node that another run's living attempt uses to that run's name."""
    others = Attempt.objects.exclude(run=run).exclude(state=AttemptState.EXITED).select_related("run")
    return {name: attempt.run.name for attempt in others for name in attempt.nodes}
