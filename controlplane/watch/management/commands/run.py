"""Create, launch, hold, resume, stop and show runs from a terminal."""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.errors import MiddlewatchError
from controlplane.runbooks import actions as runbooks
from controlplane.runs import actions, queries
from controlplane.runs.models import Mode, Run


class Command(BaseCommand):
    help = "Create, launch, hold, resume, stop or show a run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="create a run that waits for its first launch")
        create.add_argument("name")
        create.add_argument("--launcher", required=True, help="name of the head node")
        create.add_argument("--nodes", type=int, required=True, help="how many nodes an attempt takes")
        create.add_argument("--gpus-per-node", type=int, default=1)
        create.add_argument("--mode", choices=Mode.values, default=Mode.AUTOPILOT.value)
        create.add_argument("--policy", nargs="*", default=[], metavar="FIELD=NUMBER", help="overrides of the policy")
        launch = verbs.add_parser("launch", help="launch the run's next attempt")
        launch.add_argument("name")
        launch.add_argument("--on", nargs="*", default=[], metavar="NODE", help="these nodes; chosen when left out")
        for verb, words in _PLAIN.items():
            verbs.add_parser(verb, help=words).add_argument("name")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            self.stdout.write(_do(options, _user(), datetime.now(UTC)))
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error


_PLAIN = {
    "hold": "keep automation off the run",
    "resume": "lift the hold",
    "stop": "stop the run for good",
    "show": "say how the run stands",
}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "terminal"


def _do(options: dict[str, Any], by: str, now: datetime) -> str:
    if options["verb"] == "create":
        return _create(options, by, now)
    run = queries.run_named(options["name"])
    if options["verb"] == "launch":
        attempt = runbooks.launch(run, options["on"] or None, by, now)
        return f"Attempt {attempt.number} of {run.name} was launched on {', '.join(attempt.nodes)}."
    if options["verb"] == "hold":
        actions.hold(run, by, now)
    elif options["verb"] == "resume":
        actions.resume(run, by, now)
    elif options["verb"] == "stop":
        actions.stop(run, by, now)
    return _shown(run)


def _create(options: dict[str, Any], by: str, now: datetime) -> str:
    run = actions.create_run(
        options["name"], launcher=options["launcher"], nodes_wanted=options["nodes"], by=by, now=now,
        gpus_per_node=options["gpus_per_node"], mode=options["mode"], policy=_policy(options["policy"]),
    )  # fmt: skip
    return f"Run {run.name} was created. Launch it with: manage.py run launch {run.name}"


def _policy(pairs: list[str]) -> dict[str, float]:
    overrides = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            overrides[name] = float(value)
        except ValueError:
            raise CommandError(f"--policy {pair}: want FIELD=NUMBER") from None
    return overrides


def _shown(run: Run) -> str:
    attempt = queries.newest_attempt(run)
    lines = [f"{run.name}: {run.state}, mode {run.mode}" + (f", held by {run.held_by}" if run.held else "")]
    lines.append(f"  furthest step {run.high_water_step}")
    if attempt is not None:
        lines.append(f"  attempt {attempt.number}: {attempt.state} on {', '.join(attempt.nodes)}")
    return "\n".join(lines)
