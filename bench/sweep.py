"""What one detection sweep costs: a run of 2,048 nodes and 16,384 ranks, and the fleet under it.

The same is measured at 256 and 1,024 nodes, since the cost must grow with the nodes and no faster.
Three moments: all is well, the run is slow and all ranks have just reported their times, and the run
stands still while one node says nothing. CPU time of one process, the best of five sweeps.

    python bench/sweep.py [--nodes 256 1024 2048]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from controlplane.domain.detection.fleet import FleetMachine
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.signals import Signal

RANKS_PER_NODE = 8
STEP_S = 10.0
SLOW_STEP_S = 10.6
STEPS = 200
TARGET_MS = 200.0
LINEAR = 1.5
"""Cost per node may grow by this factor from the smallest fleet to the largest: caches are finite."""
REPEATS = 5


@dataclass
class World:
    """A run on `nodes` nodes and the fleet's reducer, on a virtual clock."""

    nodes: int
    run: RunMachine = field(default_factory=lambda: RunMachine("bench", RunPolicy()))
    fleet: FleetMachine = field(default_factory=FleetMachine)
    now: float = 1_000_000.0
    step: int = 0

    def send(self, kind: str, node: str, rank: int | None = None, **data: object) -> None:
        """Hand one signal to both reducers."""
        named = not kind.startswith("node.")
        signal = Signal(
            kind=kind, received=self.now, at_ms=round(self.now * 1000), node=node, run="bench" if named else None,
            attempt=1 if named else None, rank=rank, data=data,
        )  # fmt: skip
        self.run.observe(signal, self.now)
        self.fleet.observe(signal, self.now)

    def launch(self) -> None:
        """Start all ranks."""
        names = [f"n{number:04}" for number in range(self.nodes)]
        self.send("attempt.started", "head", nodes=names, world_size=self.nodes * RANKS_PER_NODE)
        for rank in range(self.nodes * RANKS_PER_NODE):
            groups = {"dp": rank // 8, "tp": rank % 8, "pp": 0}
            self.send("rank.started", names[rank // RANKS_PER_NODE], rank, pid=1000 + rank, groups=groups)

    def beat(self, silent: int = 0) -> None:
        """Let all nodes but the last `silent` say a word."""
        for number in range(self.nodes - silent):
            self.send("node.heartbeat", f"n{number:04}")
        self.send("node.heartbeat", "head")

    def train(self, steps: int, seconds: float = STEP_S) -> None:
        """Make steps."""
        for _ in range(steps):
            self.step, self.now = self.step + 1, self.now + seconds
            self.send("rank.step", "n0000", 0, step=self.step, duration_ms=seconds * 1000, loss=2.0, grad_norm=0.3)

    def windows(self, slow_rank: int | None = None) -> None:
        """Let all ranks report their times over twenty steps."""
        for rank in range(self.nodes * RANKS_PER_NODE):
            slower = 600 if rank == slow_rank else 0
            wait = 500 if slow_rank is None else 1100 - slower
            times = {"compute_ms": 9400 + rank % 7 + slower, "wait_ms": wait, "data_ms": 20}
            span = {"first_step": self.step - 19, "last_step": self.step}
            self.send("rank.window", f"n{rank // RANKS_PER_NODE:04}", rank, **span, **times)

    def sweep(self) -> set[str]:
        """Sweep both; give the classes of what is news."""
        found = [*self.run.sweep(self.now), *self.fleet.sweep(self.now)]
        return {item.klass for item in found if item.stage != "cleared"}


def cpu_ms(act: Callable[[], object]) -> float:
    """Give the CPU milliseconds of the cheapest of some calls."""
    spent = []
    for _ in range(REPEATS):
        began = time.process_time()
        act()
        spent.append((time.process_time() - began) * 1000)
    return min(spent)


def measure(nodes: int) -> dict[str, float]:
    """Give the cost of a sweep in milliseconds at each moment."""
    world = World(nodes)
    world.launch()
    world.train(STEPS)
    world.windows()
    world.beat()
    assert not world.sweep()
    well = cpu_ms(world.sweep)
    for _ in range(3):
        world.train(20, SLOW_STEP_S)
        world.windows(slow_rank=nodes // 2)
    world.beat()
    assert world.sweep() == {"fail_slow"}
    slow = cpu_ms(world.sweep)
    told: set[str] = set()
    for _ in range(14):
        world.now += 10
        world.beat(silent=1)
        told |= world.sweep()
    assert {"hang", "node_lost"} <= told
    stalled = cpu_ms(world.sweep)
    return {"well": well, "slow": slow, "stalled": stalled}


def main() -> int:
    """Print the table; 1 when a sweep is too dear or dearer than linear."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[256, 1024, 2048])
    sizes = parser.parse_args().nodes
    print(f"{'nodes':>6} {'ranks':>7} {'all is well':>12} {'slow':>10} {'stalled':>10}   CPU ms a sweep")
    costs = {}
    for nodes in sizes:
        costs[nodes] = measure(nodes)
        figures = "".join(
            f"{costs[nodes][moment]:>{width}.1f}" for moment, width in (("well", 13), ("slow", 11), ("stalled", 11))
        )
        print(f"{nodes:>6} {nodes * RANKS_PER_NODE:>7}{figures}")
    most = max(costs[sizes[-1]].values())
    growth = max(
        (costs[sizes[-1]][moment] / sizes[-1]) / (costs[sizes[0]][moment] / sizes[0]) for moment in costs[sizes[0]]
    )
    print(f"most {most:.0f} ms (target {TARGET_MS:.0f}); cost per node grew by {growth:.2f} (linear up to {LINEAR})")
    return int(most > TARGET_MS or growth > LINEAR)


if __name__ == "__main__":
    sys.exit(main())
