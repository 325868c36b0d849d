"""Close what time has closed: mitigated incidents whose onset is behind a durable checkpoint.

Mitigated is not resolved (methods 11.11). An incident whose run went on without
its runbook, because a person launched it, is mitigated here as well.
"""

from datetime import datetime, timedelta

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.queries import USABLE
from controlplane.domain.chronicle import sentences
from controlplane.incidents import shared
from controlplane.incidents.ending import close, quieten
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import stream, tell_both
from controlplane.notify import actions as notify
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run, RunState

LEFT_BEHIND_AFTER = timedelta(seconds=60)
"""A runbook that brought the run back closes its incident itself; only then do we."""


def settle(run: Run | None, now: datetime, *, book: Book) -> list[Incident]:
    """Mitigate or resolve what the run (None: the fleet) has left behind; return what moved.

    The fleet also tells what several runs share. Part of the caller's transaction.
    """
    linked = shared.link(now, book=book) if run is None else []
    going = Incident.objects.select_for_update(of=("self",), no_key=True).select_related("run").filter(run=run)
    unresolved = list(going.exclude(state=IncidentState.RESOLVED))
    if not unresolved:
        return linked
    newest = runs.newest_attempt(run) if run else None
    return linked + [item for item in unresolved if _moved(item, run, newest, now, book)]


def _moved(incident: Incident, run: Run | None, newest: Attempt | None, now: datetime, book: Book) -> bool:
    if run is not None and run.state == RunState.COMPLETED:
        return close(incident, "the run completed", now, book)
    if incident.flapping_until is not None:
        return quieten(incident, now, book)
    if run is None:
        return False
    if incident.state == IncidentState.OPEN:
        return _left_behind(incident, newest, now) and _mitigate(incident, now, book)
    saved = _saved_beyond(incident)
    if saved is None:
        return False
    why = f"training is past the step of the fault, and the checkpoint of step {saved.step} is complete"
    return close(incident, why, now, book)


def _left_behind(incident: Incident, newest: Attempt | None, now: datetime) -> bool:
    """Tell whether a later attempt, launched by whomever, is further than the run ever was."""
    if newest is None or incident.attempt is None or newest.number <= incident.attempt:
        return False
    return newest.beyond_at is not None and now - newest.beyond_at >= LEFT_BEHIND_AFTER


def _saved_beyond(incident: Incident) -> Checkpoint | None:
    onset = incident.onset_step or 0
    saved = Checkpoint.objects.filter(run=incident.run, state__in=USABLE, step__gt=onset)
    return saved.filter(completed_at__gte=incident.mitigated_at).first()


def _mitigate(incident: Incident, now: datetime, book: Book) -> bool:
    open_one = Incident.objects.filter(pk=incident.pk, state=IncidentState.OPEN)
    if not open_one.update(state=IncidentState.MITIGATED, mitigated_at=now):
        return False
    incident.refresh_from_db()
    notify.ended(stream(incident), now)
    told = sentences.mitigated(incident.run.name if incident.run else "")
    tell_both(incident, "mitigated", told, book, key=f"incident:{incident.pk}:mitigated")
    return True
