"""Hurt the run of a demonstration that is up, by hand."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.demo.cluster import Cluster
from controlplane.demo.faults import FAULTS


class Command(BaseCommand):
    help = "Hurt the training run of a running demonstration."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=FAULTS)
        parser.add_argument("home", type=Path, help="folder of the demonstration, as it printed")
        parser.add_argument("--rank", type=int, default=1)

    def handle(self, *_args: object, **options: Any) -> None:
        cluster = Cluster.load(options["home"])
        for process in cluster.ranks():
            if process.rank == options["rank"]:
                fault = FAULTS[options["kind"]]
                fault.hurt(cluster, process)
                sentence = fault.sentence.format(rank=process.rank, node=process.node, pid=process.pid)
                self.stdout.write(sentence)
                return
        raise CommandError(f"--rank: rank {options['rank']} does not run now")
