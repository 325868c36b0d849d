"""Write a trace of a run: `manage.py record --run R --since 2026-11-28T22:00Z --until 2026-11-29T06:00Z FILE`."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.errors import MiddlewatchError
from controlplane.replay.record import record
from controlplane.runs.queries import run_named


class Command(BaseCommand):
    help = "Record a window of a run as a trace that can be replayed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="where the trace goes (*.trace.jsonl)")
        parser.add_argument("--run", required=True, help="name of the run")
        parser.add_argument("--since", required=True, type=moment, help="ISO time; UTC unless it says otherwise")
        parser.add_argument("--until", type=moment, help="ISO time; now when left out")
        parser.add_argument("--pseudonyms", action="store_true", help="replace the names of nodes, runs and machines")

    def handle(self, *_args: Any, **options: Any) -> None:
        until = options["until"] or datetime.now(UTC)
        try:
            run = run_named(options["run"])
            done = record(run, options["since"], until, options["file"], pseudonyms=options["pseudonyms"])
        except (MiddlewatchError, OSError) as error:
            raise CommandError(str(error)) from error
        said = f"{done.events} events of {done.nodes} nodes and {done.acts} acts of people"
        self.stdout.write(f"{said} are in {options['file']}.")


def moment(text: str) -> datetime:
    """Read an ISO time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text} is no ISO time") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
