"""A stage for the machines: short words for signals, and a virtual clock."""

from dataclasses import replace

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal

T0 = 1_000_000.0


class Stage:
    """A run on nodes n0, n1 … with one rank each, watched by a machine."""

    def __init__(self, *, nodes: int = 4, ranks_per_node: int = 1, policy: RunPolicy | None = None, run: str = "demo"):
        self.run = run
        self.policy = policy or RunPolicy()
        self.machine = RunMachine(run, self.policy)
        self.now = T0
        self.attempt = 0
        self.names = [f"n{number}" for number in range(nodes)]
        self.per_node = ranks_per_node
        self.log: list[Finding] = []
        self.mute: set[str] = set()
        self.signals: list[Signal] = []
        self.step_at = 0
        self.next_beat = T0

    @property
    def world(self) -> int:
        return len(self.names) * self.per_node

    def node_of(self, rank: int) -> str:
        return self.names[rank // self.per_node]

    def signal(self, kind, *, node="head", rank=None, run="same", attempt=None, at=None, **data) -> Signal:
        at = self.now if at is None else at
        return Signal(
            kind=kind,
            received=self.now,
            at_ms=round(at * 1000),
            node=node,
            run=self.run if run == "same" else run,
            attempt=self.attempt if attempt is None and run == "same" else attempt,
            rank=rank,
            data=data,
        )

    def send(self, kind, **words) -> Signal:
        signal = self.signal(kind, **words)
        self.signals.append(signal)
        self.machine.observe(signal, self.now)
        return signal

    def rank(self, kind, rank, **words) -> Signal:
        return self.send(kind, node=self.node_of(rank), rank=rank, **words)

    def scheduler_says(self, node, state):
        self.machine.observe(
            replace(self.signal("scheduler.node", run=None), data={"node": node, "state": state}), self.now
        )

    def sweep(self) -> list[Finding]:
        found = self.machine.sweep(self.now)
        self.log += found
        return found

    def launch(self, *, resume=0, names=None):
        self.attempt += 1
        self.names = list(names or self.names)
        self.send("attempt.started", nodes=self.names, world_size=self.world, resume={"step": resume})
        for rank in range(self.world):
            self.rank("rank.started", rank, pid=4000 + rank)

    def beat(self):
        for name in [*self.names, "head"]:
            if name not in self.mute:
                self.send("node.heartbeat", node=name, run=None)

    def wait(self, seconds, *, every=None):
        """Let the clock run with heartbeats every five seconds and a sweep every second, if not otherwise said."""
        every = every or (1.0 if seconds >= 1 else seconds)
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + every)
            if self.now >= self.next_beat:
                self.beat()
                self.next_beat = self.now + 5
            self.sweep()
        return self.log

    def step(self, number, seconds=1.0, **data):
        self.rank("rank.step", 0, step=number, duration_ms=seconds * 1000, **data)
        self.step_at = number

    def train(self, first, last, seconds=1.0, every=None, **data):
        for number in range(first, last + 1):
            self.wait(seconds, every=every or (5.0 if seconds >= 20 else None))
            self.step(number, seconds, **data)
        self.sweep()

    def classes(self, stage=None):
        return {item.klass for item in self.log if stage is None or item.stage == stage}

    def last(self, klass) -> Finding:
        return [item for item in self.log if item.klass == klass][-1]

    def first(self, klass, stage=None) -> Finding:
        return next(item for item in self.log if item.klass == klass and stage in (None, item.stage))
