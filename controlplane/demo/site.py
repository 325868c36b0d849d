"""Where the demonstration's run trains: under our own launcher on six nodes, or under a real Slurm of four."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from controlplane.demo.cluster import PRELOAD, SLURM_FOLDER
from controlplane.demo.faults import DEFAULT, SLURM_DEFAULT, Fault, parse
from controlplane.demo.slurm_lab import NODES as SLURM_NODES
from controlplane.demo.slurm_lab import SlurmLab
from controlplane.domain.errors import Invalid

SLURM_TOML = """\
scheduler = "slurm"
[slurm]
conf = "{conf}"
poll_s = 0.5
fence_s = 3.0
save_s = 0
"""

Opener = Callable[[Path], Iterator[str]]


def _local(_home: Path) -> Iterator[str]:
    yield 'scheduler = "local"\n'


def _slurm(home: Path) -> Iterator[str]:
    folder = home / SLURM_FOLDER
    folder.mkdir(mode=0o755)
    with SlurmLab(folder) as lab:
        yield SLURM_TOML.format(conf=lab.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`training` are the first nodes of `nodes`, the others are spares; `victims` are ranks to be hurt in turn.

    `starter` says who starts ranks; `policy` are settings of the run beside those of every demonstration,
    `preload` is what its ranks share.
    """

    scheduler: str
    starter: str
    nodes: tuple[str, ...]
    training: int
    victims: tuple[int, ...]
    faults: tuple[str, ...]
    open_: Opener
    policy: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    preload: tuple[str, ...] = ()

    @contextmanager
    def opened(self, home: Path) -> Iterator[str]:
        """Bring the scheduler up in `home`, and give how the launcher's file begins.

        Raises:
            CannotStart: the scheduler is not installed; the message says how it would be.
        """
        yield from self.open_(home)

    def parse(self, text: str) -> list[Fault]:
        """Read a comma-separated list of faults; without one those that the site shows.

        Raises:
            Invalid: a fault is not known, or cannot happen here.
        """
        found = parse(text or ",".join(self.faults))
        for fault in found:
            if not self.knows(fault):
                raise Invalid("--faults", f"“{fault.kind}” needs --scheduler {fault.scheduler}")
        return found

    def knows(self, fault: Fault) -> bool:
        """Whether a fault can happen here."""
        return fault.scheduler in ("", self.scheduler)


LOCAL = Site(
    scheduler="local", starter="our own launcher", nodes=("n01", "n02", "n03", "n04", "n05", "n06"), training=4,
    victims=(2, 1, 3), faults=DEFAULT, open_=_local, preload=PRELOAD,
    policy=MappingProxyType({"no_exit_s": 8.0}),
)  # fmt: skip
SLURM = Site(
    scheduler="slurm", starter="a real Slurm", nodes=SLURM_NODES, training=2, victims=(1, 0),
    faults=SLURM_DEFAULT, open_=_slurm,
    policy=MappingProxyType({"no_exit_s": 8.0, "queue_successors": 0}),
)  # fmt: skip
SITES: Mapping[str, Site] = MappingProxyType({site.scheduler: site for site in (LOCAL, SLURM)})
