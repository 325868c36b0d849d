"""Bring the attempts of a trace together with those that we launch during its replay.

What was launched that night is over; what we would have launched is a row. When the
trace shows its next attempt after a launch of ours, it is that launch.
"""

from dataclasses import dataclass, field

import msgspec

from controlplane.fleet.models import Node, NodeState
from controlplane.quarantine import actions as quarantine
from controlplane.replay.clock import at
from controlplane.replay.expand import Arrival
from controlplane.replay.followers import RunFollower
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt, AttemptState


@dataclass
class Numbers:
    """Which of our attempts each attempt of the trace is, by run."""

    _known: dict[tuple[str, int], int] = field(default_factory=dict)

    def translate(self, arrival: Arrival, run: RunFollower) -> None:
        """Give the event its attempt's number as we count; a new attempt is matched with the launch before it."""
        event = arrival.event
        if event is None or event.attempt is None:
            return
        key = (run.run.name, event.attempt)
        if event.kind == "attempt.started" and key not in self._known:
            self._known[key] = self._matched(event.attempt, run)
            _announce(arrival, run, self._known[key])
        event.attempt = self._known.get(key, event.attempt)

    def _matched(self, number: int, run: RunFollower) -> int:
        taken = {ours for (name, _), ours in self._known.items() if name == run.run.name}
        newest = run.attempts[0] if run.attempts else None
        if newest is None:
            return number
        if newest.state == AttemptState.STARTING and newest.number not in taken:
            return newest.number
        return max(number, max(newest.number, *taken, 0) + 1)


def _announce(arrival: Arrival, run: RunFollower, number: int) -> None:
    """Let the world follow the trace: its nodes train, and no two attempts live at once."""
    now = at(arrival.t)
    assert arrival.event is not None  # noqa: S101 - asked by the caller
    data = msgspec.json.decode(arrival.event.data)
    named = data.get("nodes") if isinstance(data, dict) else None
    nodes = [str(name) for name in named] if isinstance(named, list) else []
    for older in Attempt.objects.filter(run=run.run, number__lt=number).exclude(state=AttemptState.EXITED):
        runs.close_attempt(older, "killed", now)
    if nodes:
        Attempt.objects.filter(run=run.run, number=number, state=AttemptState.STARTING).update(nodes=nodes)
        spare = Node.objects.filter(name__in=nodes, state=NodeState.SPARE).values_list("name", flat=True)
        why = f"joined attempt {number} of {run.run.name}"
        quarantine.join(sorted(spare), why, now=now, key=f"replay:{run.run.pk}:{number}")
    run.refresh()
