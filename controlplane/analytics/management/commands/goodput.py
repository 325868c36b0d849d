"""Say where the time of a run went: `manage.py goodput --run R --since 2026-11-28T00:00Z`."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.analytics.account import Account, account, life
from controlplane.domain.accounting.reliability import Mean
from controlplane.domain.chronicle.words import duration, gpu_hours
from controlplane.domain.errors import MiddlewatchError
from controlplane.runs.queries import run_named


class Command(BaseCommand):
    help = "Account for the time of a run: goodput, what the rest was lost to, MTBF and repair times."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", required=True, help="name of the run")
        parser.add_argument("--since", type=_moment, help="ISO time; the run's first launch when left out")
        parser.add_argument("--until", type=_moment, help="ISO time; now when left out")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            run = run_named(options["run"])
            first, last = life(run, datetime.now(UTC))
            begin, end = options["since"] or first, options["until"] or last
            if begin >= end:
                told = options["since"] or options["until"]
                raise CommandError("--since must be before --until" if told else f"run {run.name} was never launched")
            found = account(run, begin=begin, end=end)
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error
        gpus = run.gpus_per_node * run.nodes_wanted
        self.stdout.write(json.dumps(as_json(found, gpus)) if options["json"] else "\n".join(_lines(found, gpus)))


def _moment(text: str) -> datetime:
    """Read an ISO time; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def as_json(found: Account, gpus: int) -> dict[str, Any]:
    good, kept = found.goodput, found.reliability
    return {
        "begin": found.begin.isoformat(), "end": found.end.isoformat(), "elapsed_s": good.elapsed_ms / 1000,
        "by_label_s": {label.value: ms / 1000 for label, ms in good.by_label_ms.items() if ms},
        "goodput": round(good.productive, 6), "safe": round(good.safe, 6), "ettr": round(found.ettr, 6),
        "lost_steps": good.lost_steps, "lost_gpu_hours": round(good.lost_gpu_hours(gpus), 6),
        "interruptions": kept.interruptions, "planned_stops": kept.planned,
        **{f"{name}_s": _seconds(mean) for name, mean in _means(found).items()},
    }  # fmt: skip


def _means(found: Account) -> dict[str, Mean]:
    kept = found.reliability
    return {"mtbf": kept.mtbf, "mttd": kept.detect, "mttr_resume": kept.resume, "mttr_caught_up": kept.caught_up}


def _seconds(mean: Mean) -> dict[str, Any]:
    return {"mean": None if mean.ms is None else round(mean.ms / 1000, 3), "n": mean.n}


def _lines(found: Account, gpus: int) -> list[str]:
    good = found.goodput
    lines = [
        f"From {found.begin:%Y-%m-%d %H:%M} to {found.end:%Y-%m-%d %H:%M} UTC, {duration(good.elapsed_ms / 1000)}:",
        f"  goodput {good.productive:.1%} ({good.safe:.1%} behind a durable checkpoint), ETTR {found.ettr:.1%}",
        f"  lost {gpu_hours(good.lost_gpu_hours(gpus))} GPU-hours; {good.lost_steps} steps were made twice",
    ]
    lines += [
        f"  {label.value.replace('_', ' '):<16} {duration(ms / 1000):>14}  {ms / good.elapsed_ms:6.1%}"
        for label, ms in good.by_label_ms.items()
        if ms
    ]
    for name, mean in _means(found).items():
        told = "–" if mean.ms is None else duration(mean.ms / 1000)
        lines.append(f"  {name.upper().replace('_', ' '):<16} {told:>14}  n={mean.n}")
    return lines
