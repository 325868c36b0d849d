"""Stop automation, let it act again, or say how it stands: the kill switch for whoever has only a shell."""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.errors import MiddlewatchError
from controlplane.runbooks import budgets, switches
from controlplane.runs.models import Run
from controlplane.runs.queries import run_named


class Command(BaseCommand):
    help = "Switch automation off or on for all runs or one, reset its breaker, or show how it stands."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["off", "on", "reset", "state"])
        parser.add_argument("--run", help="a run's name; all runs when left out")
        parser.add_argument("--why", default="", help="told to everybody who looks")
        parser.add_argument(
            "--backlog", choices=list(switches.Backlog), default=switches.Backlog.PROCESS.value,
            help="what becomes of the trouble that was found meanwhile",
        )  # fmt: skip

    def handle(self, *_args: object, **options: Any) -> None:
        now = datetime.now(UTC)
        try:
            run = run_named(options["run"]) if options["run"] else None
            self._do(options, run, now)
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error
        self._show(run, now)

    def _do(self, options: dict[str, Any], run: Run | None, now: datetime) -> None:
        by = getpass.getuser()
        match options["what"]:
            case "off":
                switches.off(run, by, options["why"], now)
            case "on":
                switches.on(run, by, now, options["backlog"])
            case "reset":
                switches.reset(run, by, now, options["backlog"])

    def _show(self, run: Run | None, now: datetime) -> None:
        self.stdout.write(switches.state(run).words)
        for budget in budgets.of(run, now):
            self.stdout.write(f"  {budget.name}: {budget.words}")
