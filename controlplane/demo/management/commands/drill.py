"""`manage.py drill --run R --fault crash`: hurt one rank of a live run on purpose, and report how it came back.

The drill is the runbook `fault-drill`; this starts it, follows it and prints what it
measured as the demonstration prints its faults. It refuses as the runbook does.
"""

import getpass
import sys
import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.analytics.account import account, life
from controlplane.chronicle import queries as chronicle
from controlplane.demo import report
from controlplane.domain.errors import MiddlewatchError
from controlplane.notify import queries as notify
from controlplane.runbooks import starting
from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.runbooks.steps.drill import CRASH, HANG
from controlplane.runs.models import Run
from controlplane.runs.queries import run_named

RUNBOOK = "fault-drill"
POLL_S = 0.5
LIMIT_S = 3_700.0
"""A little more than the runbook itself waits for a recovery."""
OVER = (ExecutionState.SUCCEEDED, ExecutionState.FAILED, ExecutionState.STOPPED, ExecutionState.UNDONE)


class Command(BaseCommand):
    help = "Hurt one rank of a live run on purpose, and report how long it took to detect and to recover."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", required=True, help="name of the run")
        parser.add_argument("--fault", choices=(CRASH, HANG), default=CRASH)
        parser.add_argument("--yes", action="store_true", help="ask no question")
        parser.add_argument("--by", default=getpass.getuser(), help="in whose name (default: yours)")
        parser.add_argument("--report", type=Path, help="write what was measured as JSON")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            run = run_named(options["run"])
            if not options["yes"]:
                _ask(run, options["fault"])
            made = starting.start(RUNBOOK, run, options["by"], datetime.now(UTC), {"fault": options["fault"]})
        except MiddlewatchError as error:
            raise CommandError(str(error)) from None
        self._close(run, self._follow(made), options["report"])

    def _follow(self, made: Execution) -> Execution:
        """Tell each step as it ends, until the drill is over."""
        deadline, told = time.monotonic() + LIMIT_S, set[int]()
        while time.monotonic() < deadline:
            for tried in StepRun.objects.filter(execution=made).exclude(finished_at=None).exclude(pk__in=told):
                told.add(tried.pk)
                self.stdout.write(tried.sentence)
            made.refresh_from_db()
            if made.state in OVER:
                return made
            time.sleep(POLL_S)
        raise CommandError(f"execution {made.pk} is {made.state} still: {made.held_by or 'no worker carries it on'}")

    def _close(self, run: Run, done: Execution, path: Path | None) -> None:
        if done.state != ExecutionState.SUCCEEDED:
            raise CommandError(done.outcome)
        row, people = measured(done), _people(done)
        self.stdout.write(report.table([row]))
        self.stdout.write(f"Told of it: {'; '.join(people) or 'nobody'}.")
        if path is not None:
            begin, end = life(run, datetime.now(UTC))
            goodput = account(run, begin=begin, end=end).goodput.productive
            report.write(path, [row], goodput=goodput, chronicle=_told(done), told=people)
        if not row.recovered:
            raise CommandError("the run was not brought back without a person")


def measured(done: Execution) -> report.FaultReport:
    """Give what a finished drill has measured."""
    facts = done.context
    return report.FaultReport(
        kind=str(facts["fault"]), klass=str(facts.get("named", "")), detected_s=facts.get("detected_s"),
        decided_s=facts.get("decided_s"), resumed_s=facts.get("resumed_s"), steps_lost=facts.get("steps_lost"),
        unattended=bool(facts.get("unattended")),
    )  # fmt: skip


def _told(done: Execution) -> str:
    return "\n".join(entry.sentence for entry in chronicle.entries(f"incident:{done.context['incident']}"))


def _people(done: Execution) -> list[str]:
    """Name who was told of the drill and of what it caused, and what became of each message."""
    subjects = dict.fromkeys(f"incident:{number}" for number in (done.incident_id, done.context["incident"]))
    told = [one for subject in subjects for one in notify.told(subject).messages]
    return [f"{one.rule} by {one.kind} ({one.state})" for one in told]


def _ask(run: Run, fault: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("--yes: is needed where nobody can be asked")
    said = input(f"This will {'freeze' if fault == HANG else 'kill'} one rank of {run.name}. Type the run's name: ")
    if said.strip() != run.name:
        raise CommandError("that is not the run's name; nothing was touched")
