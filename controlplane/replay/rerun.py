"""Ask what today's rules would have done about an incident, and find out.

The window around the incident is recorded into a temporary file and replayed by the
command that people have, in a database of its own. In the live one only the row of
the rerun changes, and the incident's chronicle says who asked.
"""

import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.errors import Conflict, Invalid, MiddlewatchError, Refused
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import shown, stream
from controlplane.replay import process
from controlplane.replay.models import UNFINISHED, Rerun, RerunState
from controlplane.replay.record import record
from controlplane.replay.stage import MODES
from controlplane.runs.book import Book
from controlplane.runs.models import Run
from controlplane.watch import wake

log = logging.getLogger(__name__)

BEFORE = timedelta(minutes=30)
AFTER = timedelta(minutes=10)
LONGEST = timedelta(hours=24)
MAX_EVENTS = 1_000_000
MAX_WAITING = 10
"""Reruns of all incidents that may wait for their turn; one runs at a time."""
KEPT = 10
"""Reruns that are kept of one incident, the newest."""
STUCK = timedelta(minutes=15)
MAX_SETTINGS = 50
RULE = re.compile(r"[\w.\-]{1,64}")
FOLDER = "mw-replay-{pid}-"
"""Named like the replay command's own: the next one deletes what a killed worker left."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rerun came to: a report, or why there is none."""

    report: dict[str, Any] | None = None
    events: int | None = None
    why: str = ""


def newest(incident: Incident) -> Rerun | None:
    """Return the rerun that was asked for last."""
    return Rerun.objects.filter(incident=incident).first()


def window(incident: Incident, now: datetime) -> tuple[datetime, datetime]:
    """Return what is recorded: half an hour before to ten minutes after, the first LONGEST of it.

    It does not begin before the run was created: nobody spoke for it then, which would
    look as if we had been blind.
    """
    since = incident.began_at - BEFORE
    if incident.run is not None and since < incident.run.created_at < incident.began_at:
        since = incident.run.created_at
    until = min(now, incident.resolved_at + AFTER) if incident.resolved_at else now
    return since, min(until, since + LONGEST)


def ask(incident: Incident, overrides: Mapping[str, Any], by: str, now: datetime) -> Rerun:
    """Queue a rerun under `overrides` of the run's settings, and wake a worker.

    Raises:
        Invalid: a setting does not fit; names it.
        Refused: nothing can be recorded, or too many wait already.
        Conflict: a rerun of this incident is under way.
    """
    run = _recordable(incident, now)
    check(run, overrides)
    since, until = window(incident, now)
    with transaction.atomic():
        if Rerun.objects.filter(state=RerunState.QUEUED).count() >= MAX_WAITING:
            raise Refused(f"{MAX_WAITING} replays wait already; try again in some minutes")
        row = _queued(Rerun(
            incident=incident, asked_by=by, asked_at=now, overrides=dict(overrides), since=since, until=until,
        ))  # fmt: skip
        _forget_old(incident)
        _tell(row, now)
        transaction.on_commit(partial(wake.rerun, row.pk))
    return row


def _recordable(incident: Incident, now: datetime) -> Run:
    if incident.run is None:
        raise Refused("this incident is about the fleet; only what happened to a run can be replayed")
    kept = timedelta(days=settings.EVENT_RETENTION_DAYS)
    if incident.began_at - BEFORE < now - kept:
        raise Refused(f"events are kept for {kept.days} days; those of this incident are gone")
    return incident.run


def check(run: Run, overrides: Mapping[str, Any]) -> None:
    """Raise `Invalid`, naming the setting, unless the run could have these on top of its own."""
    if len(overrides) > MAX_SETTINGS:
        raise Invalid("settings", f"must be at most {MAX_SETTINGS}")
    plain = dict(overrides)
    if str(plain.pop("mode", "act")) not in MODES:
        raise Invalid("mode", f"must be one of {', '.join(sorted(MODES))}")
    policy = RunPolicy.from_overrides({**run.policy, **plain})
    wrong = next((rule for rule in policy.modes if not RULE.fullmatch(rule)), None)
    if wrong is not None or len(policy.modes) > MAX_SETTINGS:
        raise Invalid("modes", "must name rules, as in modes.D-04=observe")


def _queued(row: Rerun) -> Rerun:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise Conflict("a replay of this incident is under way") from None
    return row


def _forget_old(incident: Incident) -> None:
    """Keep the newest; the one that is under way is among them."""
    old = Rerun.objects.filter(incident=incident).values_list("pk", flat=True)[KEPT:]
    Rerun.objects.filter(pk__in=list(old)).delete()


def _tell(row: Rerun, now: datetime) -> None:
    book = Book(now, "person", row.asked_by)
    under = ", ".join(arguments(row.overrides))
    sentence = f"{row.asked_by} asked what today's rules would have done" + (f" with {under}." if under else ".")
    book.tell(stream(row.incident), "step", sentence, data={"rerun": row.pk})
    book.write()
    shown(row.incident)


def arguments(overrides: Mapping[str, Any]) -> list[str]:
    """Write settings as the replay command takes them: `silence_s=20`, `modes.D-04=off`."""
    return list(_pairs(overrides))


def _pairs(overrides: Mapping[str, Any]) -> Iterator[str]:
    for name, value in overrides.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{rule}={mode}" for rule, mode in value.items())
        else:
            yield f"{name}={'none' if value is None else value}"


def next_waiting() -> int | None:
    """Return the rerun whose turn it is, None while another one runs."""
    if Rerun.objects.filter(state=RerunState.RUNNING).exists():
        return None
    return Rerun.objects.filter(state=RerunState.QUEUED).order_by("pk").values_list("pk", flat=True).first()


def claim(rerun_id: int, now: datetime) -> Rerun | None:
    """Begin a queued rerun; None when somebody else did, or another one runs."""
    waiting = Rerun.objects.filter(pk=rerun_id, state=RerunState.QUEUED)
    try:
        with transaction.atomic():
            if not waiting.update(state=RerunState.RUNNING, started_at=now):
                return None
    except IntegrityError:
        return None
    return Rerun.objects.select_related("incident__run").get(pk=rerun_id)


def perform(row: Rerun) -> Outcome:
    """Record and replay; blocks for minutes and raises nothing."""
    try:
        return _performed(row)
    except (process.Failed, MiddlewatchError) as error:
        return Outcome(why=str(error))
    except Exception:  # a row left running would keep others waiting
        log.exception("rerun %s failed unexpectedly", row.pk)
        return Outcome(why="something went wrong; the worker's log says what")


def _performed(row: Rerun) -> Outcome:
    run = row.incident.run
    if run is None:
        raise Refused("the run is gone")
    with tempfile.TemporaryDirectory(prefix=FOLDER.format(pid=os.getpid())) as folder:
        trace = Path(folder) / f"incident-{row.incident_id}.trace.jsonl"
        done = record(run, row.since, row.until, trace, most=MAX_EVENTS)
        if not done.events:
            raise Refused("no event of that time is stored")
        if not connection.in_atomic_block:
            connection.close()  # the replay takes minutes and needs none of ours
        found = process.play(trace, arguments(row.overrides))
    return Outcome(report={name: part for name, part in found.items() if name != "chronicle"}, events=done.events)


def finish(row: Rerun, outcome: Outcome, now: datetime) -> None:
    """Write down what a rerun came to, unless it was given up meanwhile."""
    state = RerunState.FAILED if outcome.report is None else RerunState.DONE
    Rerun.objects.filter(pk=row.pk, state=RerunState.RUNNING).update(
        state=state, report=outcome.report, events=outcome.events, why=outcome.why, finished_at=now
    )


def give_up_stuck(now: datetime) -> int:
    """Fail what runs for longer than any rerun may: its worker was killed. Returns how many."""
    stuck = Rerun.objects.filter(state=RerunState.RUNNING, started_at__lt=now - STUCK)
    minutes = int(STUCK.total_seconds()) // 60
    why = f"its worker did not come back within {minutes} min; ask again"
    return stuck.update(state=RerunState.FAILED, why=why, finished_at=now)


def under_way(row: Rerun | None) -> bool:
    """Say whether a rerun has yet to end."""
    return row is not None and row.state in UNFINISHED
