"""Any order of events, batches, acknowledgements, lost answers, deaths and disk faults keeps the spool's promise."""

import random

import msgspec
import pytest
from middlewatch_agent import kinds
from middlewatch_agent.config import SpoolLimits
from middlewatch_agent.spool import Spool, waiting


class Server:
    """Stores by (incarnation, seq), as the control plane does."""

    def __init__(self):
        self.stored = {}
        self.order = []

    def take(self, flight):
        if not self.order or self.order[-1] != flight.incarnation:
            self.order.append(flight.incarnation)
        for row in flight.rows:
            number = msgspec.json.decode(row.body)["data"]["n"]
            assert self.stored.setdefault((flight.incarnation, row.seq), number) == number

    def numbers(self):
        return sorted(self.stored.values())


class World:
    """An agent's spool, the disk under it and the control plane above it."""

    def __init__(self, path, seed):
        self.dice = random.Random(seed)
        self.path = path
        self.server = Server()
        self.made = 0
        self.lives = 0
        self.open()

    def open(self):
        self.lives += 1
        self.spool = Spool(self.path, SpoolLimits(), incarnation=f"life-{self.lives}")

    def event(self):
        self.made += 1
        kind = self.dice.choice(["rank.step", "node.health", "rank.exited"])
        return waiting(kind, kinds.encode({"kind": kind, "data": {"n": self.made}}, 1))

    def put(self):
        self.spool.put([self.event() for _ in range(self.dice.randint(1, 5))])

    def send(self):
        flight = self.spool.flight(lambda: [self.event()] if self.dice.random() < 0.3 else [])
        if flight is None or self.dice.random() < 0.2:
            return  # nothing to do, or the request got lost
        part = flight._replace(rows=flight.rows[: self.dice.randint(1, len(flight.rows))])
        self.server.take(part)
        if self.dice.random() < 0.7:  # else the answer got lost
            self.spool.acknowledge(part.incarnation, part.rows[-1].seq)

    def die(self):
        if self.spool.on_disk:  # what is in memory alone dies with the process: not this test's promise
            self.spool._store.db.close()
            self.open()

    def fill_disk(self):
        if self.spool.on_disk:
            self.spool._store.db.execute("PRAGMA max_page_count=1")

    def tick(self):
        self.spool.tick()

    def settle(self):
        while True:
            self.spool.tick()
            flight = self.spool.flight(list)
            if flight is not None:
                self.server.take(flight)
                self.spool.acknowledge(flight.incarnation, flight.rows[-1].seq)
            elif self.spool.on_disk:
                return


@pytest.mark.parametrize("seed", range(12))
def test_every_event_arrives_once_and_numbers_have_no_gaps(tmp_path, seed):
    world = World(tmp_path / "spool.db", seed)
    acts = [world.put, world.send, world.put, world.send, world.tick, world.die, world.fill_disk]
    for _ in range(200):
        world.dice.choice(acts)()
    world.settle()
    assert world.server.numbers() == list(range(1, world.made + 1))
    for life in {life for life, _ in world.server.stored}:
        numbers = sorted(seq for other, seq in world.server.stored if other == life)
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(world.server.order) == len(set(world.server.order))
    world.spool.close()
