"""Hurt the run of a demonstration that is up, by hand."""

import time
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.demo.cluster import SLURM_FOLDER, Cluster
from controlplane.demo.faults import FAULTS
from controlplane.demo.site import LOCAL
from controlplane.domain.errors import Invalid


class Command(BaseCommand):
    help = "Hurt the training run of a running demonstration."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=FAULTS)
        parser.add_argument("home", type=Path, help="folder of the demonstration, as it printed")
        parser.add_argument("--rank", type=int, default=1)

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            cluster, fault = Cluster.load(options["home"]), FAULTS[options["kind"]]
        except Invalid as error:
            raise CommandError(str(error)) from None
        if not LOCAL.knows(fault) and not (options["home"] / SLURM_FOLDER).is_dir():
            raise CommandError(f"“{fault.kind}” needs a demonstration under --scheduler {fault.scheduler}")
        for process in cluster.ranks():
            if process.rank == options["rank"]:
                fault.hurt(cluster, process)
                sentence = fault.sentence.format(rank=process.rank, node=process.node, pid=process.pid)
                self.stdout.write(sentence)
                if fault.heals_after_s is not None:
                    self.stdout.write(f"it ends by itself after {fault.heals_after_s:.0f} s, or with Ctrl-C")
                    with suppress(KeyboardInterrupt):
                        time.sleep(fault.heals_after_s)
                    fault.heal(cluster)
                return
        raise CommandError(f"--rank: rank {options['rank']} does not run now")
