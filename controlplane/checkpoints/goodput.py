"""The account of a run over a window: how much of its time became work that lasts.

It stands here because a step counts for good only once a durable checkpoint lies
behind it, so attempts, steps and checkpoints have to be read together.
"""

from collections import defaultdict
from datetime import datetime

from django.db import connection

from controlplane.checkpoints import queries
from controlplane.domain.accounting import goodput as account
from controlplane.domain.accounting.goodput import AttemptWork, Goodput, Step
from controlplane.domain.errors import Invalid
from controlplane.runs.models import Run

MAX_STEPS = 2_000_000
"""Steps that one account reads; a longer window has to be asked for in parts."""

_STEPS = """
SELECT attempt, (data->>'step')::bigint, at_ms, coalesce((data->>'duration_ms')::float8, 0)
FROM events_event
WHERE run = %s AND kind = 'rank.step' AND received_at >= %s AND received_at < %s
  AND attempt IS NOT NULL AND jsonb_typeof(data->'step') = 'number'
  AND coalesce(jsonb_typeof(data->'duration_ms'), 'number') = 'number'
LIMIT %s
"""


def goodput(run: Run, *, begin: datetime, end: datetime) -> Goodput:
    """Account for [begin, end) of `run`.

    Raises:
        Invalid: the window holds more than MAX_STEPS steps.
    """
    durable_step = queries.restore_point(run).step
    made = _steps(run.name, begin, end)
    works = [
        AttemptWork(number=attempt.number, resume_step=attempt.resume_step, steps=made.get(attempt.number, []))
        for attempt in run.attempts.all()
    ]
    return account.goodput(works, begin=_ms(begin), end=_ms(end), durable_step=durable_step)


def _steps(run: str, begin: datetime, end: datetime) -> dict[int, list[Step]]:
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, [run, begin, end, MAX_STEPS + 1])
        rows = cursor.fetchall()
    if len(rows) > MAX_STEPS:
        raise Invalid("since", f"the window holds more than {MAX_STEPS} steps; ask for a shorter one")
    steps = defaultdict(list)
    for attempt, number, at_ms, duration_ms in rows:
        steps[attempt].append(Step(number, at_ms - round(duration_ms), at_ms))
    return steps


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
