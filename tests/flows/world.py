"""A cluster made of tables and a given clock: scripted agents, a scripted launcher, scripted ranks.

Nothing sleeps. `tick` moves the clock second by second; in each second the living
agents beat, the living ranks step, commands are answered, and the watch sweeps.
`rest` is for quiet times: the same is said, and the watch sweeps less often.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.chronicle.models import Entry
from controlplane.events import log
from controlplane.fleet import actions as fleet
from controlplane.fleet.commands import handable
from controlplane.fleet.models import Command, Node
from controlplane.incidents.models import Incident
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks.models import Execution
from controlplane.runbooks.queries import due
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt, Run
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline

HEAD = "head"
REST_S = 5
"""A look costs a hundred queries, and in a quiet time all looks are alike."""
POLICY = {
    "hang_floor_s": 10.0, "delta_s": 1.0, "silence_s": 15.0, "silence_hold_s": 10.0, "min_samples": 5,
    "warmup_steps": 0, "declared_step_s": 1.0, "early_deadline_s": 20.0, "settle_s": 1.0, "launch_deadline_s": 60.0,
}  # fmt: skip


@dataclass
class Rank:
    node: str
    alive: bool = True
    stopped: bool = False


@dataclass
class Cluster:
    """What really happens: who lives, what runs, what lies on the disk."""

    now: datetime = datetime(2026, 11, 29, 0, 0, tzinfo=UTC)
    size: int = 4
    spares: int = 2
    policy: dict = field(default_factory=lambda: dict(POLICY))
    mode: str = "autopilot"
    owner: str = "test:1"
    alive: set = field(default_factory=set)
    ranks: dict = field(default_factory=dict)
    attempt: int = 0
    step: int = 0
    disk: list = field(default_factory=list)
    save_every: int = 5
    training: bool = True
    norm: float | None = None
    stands: dict = field(default_factory=dict)
    supports: list = field(default_factory=list)
    also: dict = field(default_factory=dict)
    launches: list = field(default_factory=list)
    stops: list = field(default_factory=list)
    answered: dict = field(default_factory=dict)
    mute_kinds: set = field(default_factory=set)
    fail_kinds: dict = field(default_factory=dict)
    sequence: dict = field(default_factory=lambda: defaultdict(int))
    waiting: dict = field(default_factory=lambda: defaultdict(list))

    def enrol(self, name):
        Node.objects.create(name=name, enrolled_at=self.now, state_since=self.now)
        self.say(name, "node.hello", hardware={"machine_id": name}, capabilities=["launcher"] * (name == HEAD))
        self.alive.add(name)

    def build(self):
        for name in [*(f"n{index:02}" for index in range(1, self.size + self.spares + 1)), HEAD]:
            self.enrol(name)
        self.post()
        fleet_watch.sweep_fleet(self.owner, self.now)
        self.run = runs.create_run(
            "demo", launcher=HEAD, nodes_wanted=self.size, policy=self.policy, mode=self.mode, now=self.now, by="ana"
        )
        return self

    def launch(self):
        runbooks.launch(self.run, None, "ana", self.now)
        return self

    # What agents do

    def say(self, node, kind, /, *, attempt=None, rank=None, about_run=False, **data):
        self.sequence[node] += 1
        run = self.run.name if about_run else None
        event = make_event(
            kind,
            at_ms=int(self.now.timestamp() * 1000),
            seq=self.sequence[node],
            run=run,
            attempt=attempt,
            rank=rank,
            **data,
        )
        self.waiting[node].append(event)

    def post(self):
        """Send what the agents hold; a batch is durable when this returns."""
        batches = []
        for node, events in self.waiting.items():
            agent = AgentIdentity(node=node, incarnation=f"{node}-life")
            batches.append(decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=events))))
        self.waiting.clear()
        if batches:
            assert not [batch.rejected for batch in batches if batch.rejected]
            with transaction.atomic(), connection.cursor() as cursor:
                log.append(cursor, batches, self.now)

    def rank_says(self, rank, kind, /, **data):
        self.say(self.ranks[rank].node, kind, attempt=self.attempt, rank=rank, about_run=True, **data)

    def beat(self):
        if int(self.now.timestamp()) % 5 == 0:
            for node in sorted(self.alive):
                self.say(node, "node.heartbeat", uptime_s=1.0)

    def make_step(self):
        healthy = self.ranks and all(rank.alive and not rank.stopped for rank in self.ranks.values())
        if not (healthy and self.training):
            return
        self.step += 1
        told = {} if self.norm is None else {"grad_norm": self.norm}
        self.rank_says(0, "rank.step", step=self.step, duration_ms=1000.0, tokens=100, loss=1.0, **told)
        if self.step % self.save_every == 0:
            self.save("complete")

    def save(self, state, step=None):
        step = step or self.step
        found = {
            "step": step,
            "path": f"/data/step-{step}",
            "state": state,
            "bytes": 10,
            "files": 2,
            "expected_files": 2,
            "why": "" if state == "complete" else "a file is short",
        }
        self.disk.insert(0, found)
        data = {key: found[key] for key in ("step", "path", "state", "bytes", "files", "expected_files")}
        self.rank_says(0, "checkpoint", tier="persistent", format="dcp", **data)

    # What goes wrong

    def kill_rank(self, rank, signal=9):
        self.ranks[rank].alive = False
        self.rank_says(rank, "rank.exited", exit_code=None, signal=signal)

    def stop_rank(self, rank):
        self.ranks[rank].stopped = True

    def go_on(self, rank):
        self.ranks[rank].stopped = False

    def lose_node(self, node):
        """The agent and its ranks die at once; the peers fail on their connections."""
        self.alive.discard(node)
        self.waiting.pop(node, None)
        for rank in self.ranks.values():
            if rank.node == node:
                rank.alive = False
        for number, rank in self.ranks.items():
            if rank.alive:
                rank.alive = False
                error = {"type": "RuntimeError", "message": "Connection closed by peer", "traceback_tail": ""}
                self.rank_says(number, "rank.exited", exit_code=1, signal=None, error=error)

    # What answers commands

    def answer(self):
        waited_for = set(handable(self.now).values_list("node__name", flat=True))
        for node in sorted(self.alive & waited_for):
            for command in fleet.lease_commands([node], self.now).get(node, []):
                self.do(node, command)

    def do(self, node, command):
        if command.kind in self.mute_kinds:
            return
        if str(command.pk) in self.answered:
            self.say(node, "command.result", command_id=str(command.pk), **self.answered[str(command.pk)])
            return
        if command.kind in self.fail_kinds:
            result = {"state": "failed", "output_tail": self.fail_kinds[command.kind]}
        else:
            act = {
                "attempt.start": self.start,
                "attempt.stop": self.stop,
                "checkpoints.scan": self.scan,
                "collect": self.collect,
                **self.also,
                "ranks.stop": self.stop_ranks,
            }[command.kind]
            result = {"state": "succeeded", "data": act(node, command.args)}
        self.answered[str(command.pk)] = result
        self.say(node, "command.result", command_id=str(command.pk), **result)

    def start(self, _node, args):
        self.launches.append(args)
        self.attempt, self.step = args["attempt"], args["resume"]["step"]
        self.ranks = {index: Rank(name, alive=name in self.alive) for index, name in enumerate(args["nodes"])}
        self.say(
            HEAD,
            "attempt.started",
            attempt=self.attempt,
            about_run=True,
            scheduler="local",
            job_id="1",
            nodes=args["nodes"],
            world_size=len(args["nodes"]),
            resume=args["resume"],
            supports=self.supports,
        )
        for rank in self.ranks:
            self.rank_says(rank, "rank.started", node=self.ranks[rank].node, local_rank=0, pid=100 + rank)
        return {"job_id": "1", "world_size": len(args["nodes"])}

    def stop(self, _node, args):
        self.stops.append(args)
        if args["attempt"] == self.attempt:
            for number, rank in self.ranks.items():
                if rank.alive and rank.node in self.alive:
                    self.rank_says(number, "rank.exited", exit_code=None, signal=15)
                rank.alive = False
            self.say(HEAD, "attempt.exited", attempt=self.attempt, about_run=True, reason="killed", exit_code=1)
        return {"stopped": True, "survivors": []}

    def stop_ranks(self, node, args):
        """The node's own agent kills what is left of an attempt there."""
        wanted = args.get("ranks")
        for number, rank in self.ranks.items():
            chosen = args["attempt"] == self.attempt and rank.node == node and (wanted is None or number in wanted)
            if chosen and rank.alive:
                rank.alive = False
                self.rank_says(number, "rank.exited", exit_code=None, signal=9)
        return {"stopped": True, "ranks": {}, "survivors": []}

    def scan(self, _node, args):
        return {"checkpoints": self.disk[: args["newest"]]}

    def collect(self, node, _args):
        here = {number: rank for number, rank in self.ranks.items() if rank.node == node and rank.alive}
        for number, rank in here.items():
            self.rank_says(
                number,
                "rank.stack",
                tool="proc",
                ok=True,
                frames=["state T (stopped)" if rank.stopped else "state S (sleeping)"],
            )
            if number in self.stands and not rank.stopped:
                self.rank_says(number, "rank.stack", tool="worker_server", ok=True, frames=[self.stands[number]])
        states = {
            str(number): {"proc_state": "T" if rank.stopped else "S", "answered": not rank.stopped}
            for number, rank in here.items()
        }
        return {"ranks": states}

    def complete(self):
        for rank in self.ranks:
            self.rank_says(rank, "rank.exited", exit_code=0, signal=None)
            self.ranks[rank].alive = False
        self.say(HEAD, "attempt.exited", attempt=self.attempt, about_run=True, reason="completed", exit_code=0)

    # Time

    def look(self, owner=None):
        """One round of the watch, as the tasks do it."""
        fleet_watch.sweep_fleet(owner or self.owner, self.now)
        pipeline.sweep_run(self.run.pk, owner or self.owner, self.now)
        for execution_id in due(self.now).values_list("pk", flat=True):
            runbooks.pursue(execution_id, owner or self.owner, self.now)

    def hear(self):
        """Let what agents said and did become known, without time going by."""
        self.answer()
        self.post()
        self.look()

    def tick(self, seconds=1):
        for _ in range(seconds):
            self.pass_second()
            self.catch_up()

    def rest(self, seconds):
        """Let a time go by in which nothing is to happen; the watch looks every five seconds and at the end."""
        for passed in range(1, seconds + 1):
            self.pass_second()
            if passed % REST_S == 0 or passed == seconds:
                self.catch_up()

    def pass_second(self):
        self.now += timedelta(seconds=1)
        self.beat()
        self.make_step()

    def catch_up(self):
        self.hear()
        if handable(self.now).exists():
            self.hear()

    def until(self, what, limit=300):
        """Let time go by until something is so; fails when it never is. Returns the seconds it took."""
        for passed in range(limit):
            if what():
                return passed
            self.tick()
        raise AssertionError(f"not within {limit} s; {self.told()}")

    # What the control plane knows

    def incident(self):
        return Incident.objects.filter(run=self.run).order_by("-pk").first()

    def execution(self):
        return Execution.objects.filter(run=self.run).order_by("-pk").first()

    def told(self, stream=None):
        entries = Entry.objects.filter(stream__name=stream) if stream else Entry.objects.all()
        return [f"{entry.kind}: {entry.sentence}" for entry in entries.order_by("pk")]

    def newest(self):
        return Attempt.objects.filter(run=self.run).order_by("-number").first()

    def fresh(self):
        return Run.objects.get(pk=self.run.pk)

    def node(self, name):
        return Node.objects.get(name=name)

    def sent(self, kind):
        return Command.objects.filter(kind=kind)
