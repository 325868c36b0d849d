"""Gather what a run's account rests on: attempts, steps, phases, findings and waits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from controlplane.domain.accounting.claims import AttemptFacts, Phase, Trouble
from controlplane.domain.accounting.goodput import AttemptWork, Step
from controlplane.domain.errors import Invalid
from controlplane.incidents.models import Finding
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs.models import Attempt, Run

MAX_STEPS = 2_000_000
"""Steps that one account reads; a longer window has to be asked for in parts."""
MAX_PHASES = 200_000
WAITED_MS = 5_000
"""Choosing nodes takes no longer than this unless none is free."""
STOPPING = frozenset({
    "gpu_fault", "node_lost", "correlated_loss", "hang", "crash", "crash_no_exit", "crash_loop", "workload_error",
    "checkpoint_poison", "restore_stall", "restore_failed", "resume_mismatch", "loss_anomaly", "storage_stall",
    "network_fault", "host_memory",
})  # fmt: skip
"""Classes of trouble that stop a run; the others leave it training."""
OUTAGES = frozenset({"correlated_loss", "storage_stall"})

_STEPS = """
SELECT attempt, coalesce(rank, 0), (data->>'step')::bigint, at_ms, coalesce((data->>'duration_ms')::float8, 0)
FROM events_event
WHERE run = %s AND kind = 'rank.step' AND received_at >= %s AND received_at < %s
  AND attempt IS NOT NULL AND jsonb_typeof(data->'step') = 'number'
  AND coalesce(jsonb_typeof(data->'duration_ms'), 'number') = 'number'
LIMIT %s
"""
_PHASES = """
SELECT attempt, coalesce(rank, 0), data->>'phase', data->>'state', at_ms
FROM events_event
WHERE run = %s AND kind = 'rank.phase' AND received_at >= %s AND received_at < %s
  AND attempt IS NOT NULL AND data->>'state' IN ('begin', 'end')
ORDER BY at_ms, id LIMIT %s
"""
_STARTS = """
SELECT attempt, min(at_ms) FROM events_event
WHERE run = %s AND kind = 'attempt.started' AND attempt IS NOT NULL GROUP BY attempt
"""


def attempts(run: Run, begin: datetime, end: datetime) -> list[AttemptFacts]:
    """Gather the facts of every attempt of `run`, its steps and phases within [begin, end).

    Raises:
        Invalid: the window holds more than MAX_STEPS steps.
    """
    steps, phases, starts = _steps(run.name, begin, end), _phases(run.name, begin, end), _starts(run.name)
    troubles, drilled = _troubles(run), _drilled(run)
    return [
        AttemptFacts(
            work=AttemptWork(number=row.number, resume_step=row.resume_step, steps=steps.get(row.number, [])),
            began=starts.get(row.number, milliseconds(row.started_at)),
            ended=milliseconds(row.exited_at) if row.exited_at else None,
            stepped=milliseconds(row.first_step_at) if row.first_step_at else None,
            phases=phases.get(row.number, []),
            trouble=troubles.get(row.number),
            planned=row.number in drilled or (_planned(row) and row.number not in troubles),
        )
        for row in Attempt.objects.filter(run=run).order_by("number")
    ]  # fmt: skip


def _planned(row: Attempt) -> bool:
    """A person, a notice or the scheduler's limit ended it; a failure of its own is none of these."""
    return row.exited_at is not None and row.reason not in ("completed", "failed", "node_fail")


def _drilled(run: Run) -> set[int]:
    """Return the attempts that a drill has hurt: what was asked for is no interruption (R-15)."""
    hurt = Execution.objects.filter(run=run, context__has_key="hurt_at")
    return set(hurt.values_list("attempt", flat=True))


def milliseconds(moment: datetime) -> int:
    """Give a moment in milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def _rows(query: str, arguments: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return list(cursor.fetchall())


def _steps(run: str, begin: datetime, end: datetime) -> dict[int, list[Step]]:
    """Read the steps of each attempt as its lowest rank told them."""
    rows = _rows(_STEPS, [run, begin, end, MAX_STEPS + 1])
    if len(rows) > MAX_STEPS:
        raise Invalid("since", f"the window holds more than {MAX_STEPS} steps; ask for a shorter one")
    made: dict[int, list[Step]] = defaultdict(list)
    speaker = _speakers(rows)
    for attempt, rank, number, at_ms, duration_ms in rows:
        if rank == speaker[attempt]:
            made[attempt].append(Step(number, at_ms - round(duration_ms), at_ms))
    return made


def _speakers(rows: Iterable[tuple[Any, ...]]) -> dict[int, int]:
    lowest: dict[int, int] = {}
    for attempt, rank, *_ in rows:
        lowest[attempt] = min(rank, lowest.get(attempt, rank))
    return lowest


def _phases(run: str, begin: datetime, end: datetime) -> dict[int, list[Phase]]:
    rows = _rows(_PHASES, [run, begin, end, MAX_PHASES])
    speaker, found = _speakers(rows), defaultdict(list)
    going: dict[tuple[int, str], int] = {}
    for attempt, rank, name, state, at_ms in rows:
        if rank != speaker[attempt]:
            continue
        if state == "begin":
            going.setdefault((attempt, name), at_ms)
        elif (attempt, name) in going:
            found[attempt].append(Phase(name=name, begin=going.pop((attempt, name)), end=at_ms))
    for (attempt, name), at_ms in going.items():
        found[attempt].append(Phase(name=name, begin=at_ms, end=None))
    return found


def _starts(run: str) -> dict[int, int]:
    return dict(_rows(_STARTS, [run]))


def _troubles(run: Run) -> dict[int, Trouble]:
    """Read what stopped each attempt, by the earliest confirmed finding about it."""
    found = Finding.objects.filter(incident__run=run, klass__in=STOPPING, confirmed_at__isnull=False)
    rows: dict[int, list[Finding]] = defaultdict(list)
    for row in found.exclude(attempt=None).select_related("incident").order_by("began_at", "pk"):
        rows[row.attempt or 0].append(row)
    works = _works(run)
    return {number: _trouble(items, works.get(number, [])) for number, items in rows.items()}


def _trouble(rows: list[Finding], works: list[Execution]) -> Trouble:
    confirmed = [row.confirmed_at for row in rows if row.confirmed_at]
    choosing = StepRun.objects.filter(execution__in=works, name__in=("choose_nodes", "launch"))
    steps = list(choosing.order_by("started_at"))
    over = rows[0].incident.mitigated_at or rows[0].incident.resolved_at
    return Trouble(
        began=milliseconds(rows[0].began_at),
        found=milliseconds(min(confirmed)),
        over=milliseconds(over) if over else None,
        outage=any(row.klass in OUTAGES for row in rows),
        acting=milliseconds(steps[0].started_at) if steps else None,
        approvals=[wait for work in works if (wait := _approval(work))],
        capacity=[wait for step in steps if (wait := _capacity(step))],
    )


def _works(run: Run) -> Mapping[int, list[Execution]]:
    works: dict[int, list[Execution]] = defaultdict(list)
    for row in Execution.objects.filter(run=run).order_by("pk"):
        works[row.attempt].append(row)
    return works


def _approval(work: Execution) -> tuple[int, int | None] | None:
    """Give how long an execution waited for a person's word, None when it asked nobody."""
    if work.state == "proposed":
        return milliseconds(work.created_at), None
    if not work.approved_by and work.state != "rejected":
        return None
    first = work.steps.order_by("started_at").first()
    end = first.started_at if first else work.finished_at
    return milliseconds(work.created_at), milliseconds(end) if end else None


def _capacity(step: StepRun) -> tuple[int, int | None] | None:
    if step.name != "choose_nodes":
        return None
    begin, end = milliseconds(step.started_at), milliseconds(step.finished_at) if step.finished_at else None
    return (begin, end) if end is None or end - begin > WAITED_MS else None
