"""Keep a run's waiting jobs from starting while automation may not act on the run.

A successor begins by itself after a time limit or a preemption, so a hold or the kill
switch that stopped at the control plane would be passed by the scheduler. The launcher
is asked once for each change, and again while its scheduler was away; what a person holds at
the scheduler it lets alone.
"""

from datetime import datetime, timedelta

from django.db import transaction

from controlplane.domain.errors import NotFound
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command, CommandState
from controlplane.runs import automation
from controlplane.runs.models import Attempt, Run, RunState

OVER = (RunState.STOPPED, RunState.COMPLETED)
WITHIN = timedelta(days=1)
"""What is asked stays right until it is asked otherwise, so it waits for a launcher that is away."""
NO_QUEUE = "local"
IN_VAIN = (CommandState.FAILED, CommandState.EXPIRED)
"""Ends of a request that changed nothing; what was refused would be refused again."""


def settle_queue(run: Run, now: datetime) -> None:
    """Have the jobs held or let go as hold and kill switch stand by now. Part of the transaction that changed them."""
    if not Attempt.objects.filter(run=run).exclude(scheduler=NO_QUEUE).exists():
        return
    sent = Command.objects.filter(idempotency_key__startswith=_key(run)).order_by("-idempotency_key")
    last, heard = sent.first(), sent.exclude(state__in=IN_VAIN).first()
    held = heard is not None and heard.kind == "job.hold"
    if held != (wanted := _stands_still(run)):
        number = int(last.idempotency_key.removeprefix(_key(run))) + 1 if last else 1
        _ask(run, "job.hold" if wanted else "job.release", f"{_key(run)}{number:09}", now)


def settle_queues(run: Run | None, now: datetime) -> None:
    """Do so for a run, or for every run that is not over."""
    for one in [run] if run is not None else Run.objects.exclude(state__in=OVER):
        settle_queue(one, now)


def settle_again(now: datetime) -> None:
    """Ask once more for what came to nothing: a scheduler that was away would pass by a hold or the kill switch."""
    for number in Run.objects.exclude(state__in=OVER).values_list("pk", flat=True):
        with transaction.atomic():
            settle_queue(Run.objects.select_for_update(no_key=True).get(pk=number), now)


def _stands_still(run: Run) -> bool:
    """Look at the hold first: whoever sets one needs no lock, and may hold what the switch waits for."""
    return Run.objects.filter(pk=run.pk, held=True).exists() or automation.share(run).off is not None


def _ask(run: Run, kind: str, key: str, now: datetime) -> None:
    try:
        fleet.send_command(run.launcher, kind, {"run": run.name}, key=key, deadline=now + WITHIN, now=now)
    except NotFound:
        return  # a run of a replay has no launcher that could be asked


def _key(run: Run) -> str:
    return f"waiting:{run.pk}:"
