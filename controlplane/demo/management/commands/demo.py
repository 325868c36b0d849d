"""`make demo`: keep one real training run alive while it is hurt."""

import signal
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.demo import faults, report
from controlplane.demo.narrator import Narrator
from controlplane.demo.site import LOCAL, SITES, Site
from controlplane.demo.world import World
from controlplane.domain.errors import MiddlewatchError
from controlplane.embedded.interrupts import interruptible

MOST_FOLDER = 40


class Command(BaseCommand):
    help = "Train a small model on several nodes, hurt it three times, and watch it recover."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--faults", default="", help=f"which faults, in which order: {', '.join(faults.FAULTS)}")
        parser.add_argument(
            "--scheduler", choices=SITES, default=LOCAL.scheduler, help="who starts the ranks (default: our launcher)"
        )
        parser.add_argument("--exit", action="store_true", help="end after the table; exit status 1 if one failed")
        parser.add_argument("--report", type=Path, help="write what was measured as JSON")
        parser.add_argument("--port", type=int, help="port of the pages (default: a free one)")

    def handle(self, *_args: object, **options: Any) -> None:
        narrator = Narrator(self.stdout._out)  # type: ignore[arg-type]  # noqa: SLF001 - the wrapper adds newlines of its own
        try:
            site = SITES[options["scheduler"]]
            wanted = site.parse(options["faults"])
            with interruptible():
                self._tell(narrator, site, wanted, options)
        except KeyboardInterrupt:
            narrator.say("stopped")
        except MiddlewatchError as error:
            raise CommandError(str(error)) from None

    def _tell(self, narrator: Narrator, site: Site, wanted: list[faults.Fault], options: dict[str, Any]) -> None:
        home = Path(tempfile.mkdtemp(prefix="middlewatch-demo-", dir=_short(tempfile.gettempdir())))
        with World.opened(home, narrator, port=options["port"], site=site) as world:
            rows = world.play(wanted)
            self._close(world, rows, options["report"])
            if not options["exit"]:
                world.tell_how_to_hurt()
                signal.pause()
        if not all(row.recovered for row in rows):
            raise CommandError("not every fault was recovered from without a person")

    def _close(self, world: World, rows: list[report.FaultReport], path: Path | None) -> None:
        world.narrator.chapter("What happened")
        world.narrator.block(report.table(rows))
        world.narrator.block(f"goodput of the run since its first launch: {100 * world.goodput():.1f} %")
        if path is not None:
            report.write(path, rows, goodput=world.goodput(), chronicle=world.chronicle())
            world.narrator.say(f"report written to {path}")


def _short(folder: str) -> str:
    """Return `folder`, or /tmp where the path of an agent's socket would be longer than the kernel allows."""
    return folder if len(folder) <= MOST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp makes a private folder there
