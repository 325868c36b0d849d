"""Write what the turns of one transaction came to, by one statement that was written once."""

from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from controlplane.rows import planned
from controlplane.runbooks.models import Execution, StepRun

_TRIES = """
    WITH tries AS (
        INSERT INTO runbooks_steprun AS known (execution_id, index, try_number, name, undo, started_at, state, intent,
            result, sentence, finished_at, deadline)
        VALUES {tries}
        ON CONFLICT (execution_id, index, try_number) DO UPDATE SET state = excluded.state, result = excluded.result,
            sentence = excluded.sentence, finished_at = excluded.finished_at, deadline = excluded.deadline
        WHERE known.finished_at IS NULL
    )
"""
"""New tries, and those of an earlier transaction; one that has ended stays as it is."""
_TRY = "(" + ", ".join(["%s"] * 12) + ")"
_EXECUTION = """
    UPDATE runbooks_execution SET state = %s, step_index = %s, context = %s, wake_at = %s, finished_at = %s,
        outcome = %s, stopped_by = %s, held_by = %s, still_since = %s, lease_until = %s
    WHERE id = %s
"""


def keep(execution: Execution, tries: Sequence[StepRun]) -> None:
    """Keep an execution, which the transaction has locked, and tries of its steps."""
    begun = _TRIES.format(tries=", ".join([_TRY] * len(tries))) if tries else ""
    values = [value for tried in tries for value in _try(execution, tried)]
    with planned() as cursor:
        cursor.execute(begun + _EXECUTION, [*values, *_execution(execution)])


def _try(execution: Execution, tried: StepRun) -> tuple[Any, ...]:
    return (
        execution.pk, tried.index, tried.try_number, tried.name, tried.undo, tried.started_at, tried.state,
        Jsonb(tried.intent), Jsonb(tried.result), tried.sentence, tried.finished_at, tried.deadline,
    )  # fmt: skip


def _execution(kept: Execution) -> tuple[Any, ...]:
    return (
        kept.state, kept.step_index, Jsonb(kept.context), kept.wake_at, kept.finished_at, kept.outcome,
        kept.stopped_by, kept.held_by, kept.still_since, kept.lease_until, kept.pk,
    )  # fmt: skip
