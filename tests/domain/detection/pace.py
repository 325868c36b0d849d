"""A run whose step times and rank times a test gives in numbers, on a virtual clock."""

from dataclasses import replace
from random import Random

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.signals import Signal

USUAL_S = 105.2
COMPUTE_MS, WAIT_MS, DATA_MS = 98_000.0, 6_800.0, 400.0
BLOOM = [105.16, 105.17, 106.25, 110.17, 111.14]


class Pace:
    """`ranks` ranks, `per_node` on each node; a step of `usual` seconds with 0.3 % of noise."""

    def __init__(self, *, ranks=48, per_node=4, usual=USUAL_S, noise=0.003, policy=None, seed="pace"):
        self.machine = RunMachine("bloom", policy or RunPolicy())
        self.random = Random(seed)
        self.ranks, self.per_node, self.usual, self.noise = ranks, per_node, usual, noise
        self.now, self.attempt, self.number = 1_000_000.0, 0, 0
        self.found = []
        self.held = None
        self.groups = {}

    def node(self, rank):
        return f"n{rank // self.per_node:02}"

    def send(self, kind, node="head", rank=None, **data):
        signal = Signal(
            kind=kind, received=self.now, at_ms=round(self.now * 1000), node=node,
            run="bloom", attempt=self.attempt, rank=rank, data=data,
        )  # fmt: skip
        if self.held is None:
            self.machine.observe(signal, self.now)
        else:
            self.held.append(signal)

    def launch(self, **words):
        self.attempt += 1
        data = {"world_size": self.ranks, "fingerprint": {"git": "3f1c9ab"}} | words
        self.send("attempt.started", nodes=sorted({self.node(rank) for rank in range(self.ranks)}), **data)
        for rank in range(self.ranks):
            self.send("rank.started", self.node(rank), rank, groups=self.groups.get(rank, {"dp": rank}))

    def step(self, seconds=None, **data):
        """Make one step, of the usual time with its noise if nothing is said."""
        seconds = self.usual * (1 + self.random.gauss(0, self.noise)) if seconds is None else seconds
        self.number += 1
        self.now += seconds
        self.send("rank.step", "n00", 0, **({"step": self.number, "duration_ms": seconds * 1000} | data))
        self.sweep()

    def sweep(self):
        if self.held is None:
            self.found += [item for item in self.machine.sweep(self.now) if item.klass == "fail_slow"]

    def steps(self, count, slower=0.0, **data):
        for _ in range(count):
            self.step(self.usual * (1 + slower) * (1 + self.random.gauss(0, self.noise)), **data)

    def window(self, *, compute=None, wait=None, data=None, only=None, least=(), size=20):
        """Report the ranks' times over the last `size` steps: `compute` over the usual by rank (0.06: 6 %)."""
        compute, wait, data = compute or {}, wait or {}, data or {}
        for rank in range(self.ranks) if only is None else only:
            noise = 1 + self.random.gauss(0, 0.002)
            took = COMPUTE_MS * noise * (1 + compute.get(rank, 0))
            rest = WAIT_MS + wait.get("all", 0) - (0 if rank not in compute else compute[rank] * COMPUTE_MS)
            times = {
                "compute_ms": took,
                "wait_ms": max(0.0, rest),
                "data_ms": DATA_MS + data.get(rank, data.get("all", 0)),
            }
            times = {name: value for name, value in times.items() if name not in least}
            first, last = self.number - size + 1, self.number
            self.send("rank.window", self.node(rank), rank, first_step=first, last_step=last, **times)
        self.sweep()

    def train(self, windows, slower=0.0, **reports):
        for _ in range(windows):
            self.steps(20, slower)
            self.window(**reports)

    @property
    def last(self):
        return self.found[-1]

    def stages(self):
        return [item.stage.value for item in self.found]

    def blamed(self):
        return {line.entity for item in self.found for line in item.evidence}


def later(signal, seconds):
    """Give the same event, received `seconds` later."""
    return replace(signal, received=signal.received + seconds)
