"""Keep a run's successors in the scheduler's queue, or keep them from starting (R-13, H-07, H-08).

The launcher knows the queue; it is told what is wanted and answers with what is there,
so asking twice is the same as asking once.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.fleet import queries as fleet
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn

POLL_S = 5.0
WITHIN_S = 60.0
MAX_EXCLUDED = 1_000
"""Nodes that one request names; those beyond it the scheduler has drained by then."""


class _AsksLauncher(Step):
    """One command to the launcher; `fact` takes the jobs that it names under `said`."""

    kind = ""
    said = ""
    fact = ""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Send the command."""
        turn.command(turn.run.launcher, self.kind, {"run": turn.run.name, **self._args(turn)}, within_s=WITHIN_S)
        return {}

    def look(self, turn: Turn) -> Outcome:
        """Be done when the launcher has answered."""
        command = next(iter(turn.commands()), None)
        if command is None or not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if not succeeded(command):
            return Failed(refusal(command))
        jobs = answer(command).get(self.said)
        return Done({self.fact: [str(job) for job in jobs] if isinstance(jobs, list) else []})

    def _args(self, turn: Turn) -> dict[str, Any]:  # noqa: ARG002 - for those that need more than the run
        return {}


class KeepQueue(_AsksLauncher):
    """Keep `successors` jobs behind the one at work."""

    kind, said, fact = "job.queue", "successors", "queued"

    def _args(self, turn: Turn) -> dict[str, Any]:
        """Leave out every node that the ledger keeps out now: a successor starts when nobody looks."""
        kept_out = [node.name for node in fleet.kept_out()[:MAX_EXCLUDED]]
        return {"count": int(turn.spec.args["successors"]), "exclude": kept_out}


class HoldJob(_AsksLauncher):
    """Hold what waits."""

    kind, said, fact = "job.hold", "held", "held_jobs"


class ReleaseJob(_AsksLauncher):
    """Let it go on."""

    kind, said, fact = "job.release", "released", "released_jobs"
