"""Tell a job that begins to end from one that goes on after a rank died: then there is nothing to wait for."""

from datetime import timedelta

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.runbooks.turn import Turn
from controlplane.runs.times import moment, seconds

CRASH = "crash"
MARGIN_S = 1.0
"""A moment goes through a float; the first death must not be lost to its rounding."""
RAISED = "Traceback (most recent call last)"
"""What Python writes before it takes a process down."""


def begun(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Say whether the first death names its own cause and a second rank falls behind it: the rest may be ended."""
    return _explained(turn, diagnosis) and _followed(turn, diagnosis)


def _explained(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Say whether the ends of the others add nothing to the first death's cause.

    An exception may be one that all ranks raise: it is believed once the companions had time to report.
    """
    kind = diagnosis.facts.get("cause_kind")
    return kind == "signal" or (kind == "error" and seconds(turn.now) - diagnosis.began >= turn.policy.settle_s)


def _followed(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Ask the log whether two ranks have fallen; the finding gathers companions' reports for a while.

    The log holds what any agent says: of these ranks only their nodes and the launcher are believed.
    """
    since, attempt = moment(diagnosis.began) - timedelta(seconds=MARGIN_S), turn.broken
    theirs = {turn.run.launcher, *(attempt.nodes if attempt is not None else ())}
    kinds, number = ("rank.exited", "rank.log"), turn.execution.attempt
    heard = events.of_attempt(kinds, run=turn.run.name, attempt=number, since=since)
    return len({event.rank for event in heard if event.node in theirs and _falls(event)}) > 1


def _falls(event: StoredEvent) -> bool:
    """Take an uncaught exception for the end that it leads to: a rank may need seconds to take itself down."""
    if event.kind == "rank.log":
        return RAISED in str(event.data.get("text"))
    return event.data.get("exit_code") != 0
