"""Play traces through the pipeline on a virtual clock, in a database of their own."""

import json
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.replay import compare, settings, words
from controlplane.replay.errors import TraceError
from controlplane.replay.run import replay

QUIET_S = 10.0
EVERY_S = 5.0


class Command(BaseCommand):
    help = "Replay traces: what would have been found and done, by today's rules."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a trace (*.trace.jsonl)")
        parser.add_argument("--json", action="store_true", help="print the report as JSON, one line each for several")
        parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of every run")
        parser.add_argument("--speed", type=float, metavar="N", help="play N virtual seconds in each second")
        parser.add_argument("--against", type=Path, metavar="FILE", help="say what differs from this trace or report")
        parser.add_argument(
            "--against-set", action="append", default=[], metavar="NAME=VALUE",
            help="play the other side with these settings; without --against, of the same trace",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            overrides = settings.parsed(options["set"])
            if options["against"] or options["against_set"]:
                self._compare(options, overrides)
                return
            failed = [path for path in options["files"] if not self._one(path, options, overrides)]
        except ValueError as error:
            raise CommandError(str(error)) from error
        if failed:
            sys.exit(1)

    def _one(self, path: Path, options: dict[str, Any], overrides: dict[str, Any]) -> bool:
        several = len(options["files"]) > 1
        try:
            found = self._play(path, overrides, options["speed"])
        except (TraceError, OSError) as error:
            self.stderr.write(_why(error) if isinstance(error, OSError) else f"{path}: {error}")
            if several and options["json"]:
                self.stdout.write(json.dumps({"trace": _name(path), "error": _why(error)}))
            return False
        if options["json"]:
            self.stdout.write(json.dumps(found, ensure_ascii=False, indent=None if several else 1))
        else:
            self.stdout.write("\n".join(words.lines(found)))
        return True

    def _play(self, path: Path, overrides: dict[str, Any], speed: float | None = None) -> dict[str, Any]:
        return replay(path, overrides, complain=self.stderr.write, progress=_Progress(path, self), speed=speed)

    def _compare(self, options: dict[str, Any], overrides: dict[str, Any]) -> None:
        if len(options["files"]) != 1:
            raise CommandError("--against compares one trace")
        path = options["files"][0]
        other = options["against"] or path
        try:
            mine = compare.read(path) or self._play(path, overrides)
            theirs = compare.read(other) or self._play(other, settings.parsed(options["against_set"]))
        except (TraceError, OSError) as error:
            raise CommandError(_why(error)) from error
        differences = compare.differences(mine, theirs)
        if options["json"]:
            self.stdout.write(json.dumps(differences, ensure_ascii=False, indent=1))
        else:
            self.stdout.write("\n".join(words.difference_lines(differences, path.name, other.name)))


class _Progress:
    """Tell on standard error how far a long replay is."""

    def __init__(self, path: Path, command: BaseCommand) -> None:
        self._path, self._command = path, command
        self._began = self._told = time.monotonic()

    def __call__(self, t: float, share: float, events: int) -> None:
        now = time.monotonic()
        if now - self._began < QUIET_S or now - self._told < EVERY_S:
            return
        self._told = now
        pace = events / (now - self._began)
        self._command.stderr.write(f"{self._path.name}: t {t:,.0f} s, {share:.0%} read, {pace:,.0f} events/s")


def _why(error: Exception) -> str:
    return f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)


def _name(path: Path) -> str:
    return path.name.removesuffix(".trace.jsonl")
