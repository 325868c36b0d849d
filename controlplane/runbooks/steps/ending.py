"""Tell a job that begins to end from one that goes on after a rank died: then there is nothing to wait for."""

from datetime import timedelta

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.events import queries as events
from controlplane.runbooks.turn import Turn
from controlplane.runs.times import moment, seconds

MARGIN_S = 1.0
"""A moment goes through a float; the first death must not be lost to its rounding."""


def begun(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Say whether the first death names its own cause and a second rank has died: the rest may be ended for it."""
    return _explained(turn, diagnosis) and _followed(turn, diagnosis)


def _explained(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Say whether the ends of the others add nothing to the first death's cause.

    An exception may be one that all ranks raise: it is believed once the companions had time to report.
    """
    kind = diagnosis.facts.get("cause_kind")
    return kind == "signal" or (kind == "error" and seconds(turn.now) - diagnosis.began >= turn.policy.settle_s)


def _followed(turn: Turn, diagnosis: Diagnosis) -> bool:
    """Ask the log for a second death: the finding gathers companions' reports for a while before it tells them."""
    since, attempt = moment(diagnosis.began) - timedelta(seconds=MARGIN_S), turn.execution.attempt
    ends = events.of_attempt(("rank.exited",), run=turn.run.name, attempt=attempt, since=since)
    return len({end.rank for end in ends if end.data.get("exit_code") != 0}) > 1
