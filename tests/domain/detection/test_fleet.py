import json

import pytest

from controlplane.domain.detection.fleet import FleetMachine, Witness
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage
from controlplane.domain.signals import Signal
from tests.domain.stage import Stage as Stage_

T0 = 1_000_000.0


class Fleet:
    def __init__(self, count=20, racks=5):
        self.machine = FleetMachine(RunPolicy())
        self.now = T0
        self.names = [f"n{number}" for number in range(count)]
        self.mute = set()
        self.log = []
        self.witness = Witness()
        for number, name in enumerate(self.names):
            self.send("node.hello", name, labels={"rack": f"r{number // (count // racks)}", "zone": "z1"})

    def send(self, kind, sender, **data):
        self.machine.observe(
            Signal(kind=kind, received=self.now, at_ms=round(self.now * 1000), node=sender, data=data), self.now
        )

    def wait(self, seconds):
        for _ in range(seconds):
            self.now += 1
            if self.now % 5 == 0:
                for name in self.names:
                    if name not in self.mute:
                        self.send("node.heartbeat", name)
            self.log += self.machine.sweep(self.now, self.witness)
        return self.log

    @property
    def hold(self):
        return self.machine.view(self.now).hold


def test_two_silent_nodes_never_hold_even_in_a_small_fleet():
    fleet = Fleet(6, 2)
    fleet.mute |= {"n0", "n1"}
    fleet.wait(120)
    assert fleet.hold == ""
    assert fleet.log == []


def test_more_than_a_tenth_of_the_fleet_silent_at_once_holds_until_beats_return():
    fleet = Fleet()
    fleet.mute |= set(fleet.names[:8])
    fleet.wait(3600)
    assert fleet.hold == "8 of 20 nodes fell silent together"
    assert [(item.klass, item.stage) for item in fleet.log] == [("correlated_loss", Stage.CONFIRMED)]
    fleet.mute.clear()
    fleet.wait(10)
    assert fleet.hold == ""
    assert fleet.log[-1].stage == Stage.CLEARED


def test_advancing_runs_witness_that_only_telemetry_is_lost():
    fleet = Fleet()
    fleet.witness = Witness(busy=frozenset(fleet.names), advancing=frozenset(fleet.names))
    fleet.mute |= set(fleet.names[:8])
    fleet.wait(120)
    assert [item.klass for item in fleet.log] == ["telemetry_lost"]
    assert fleet.hold == ""


def test_one_rack_of_a_large_fleet_is_one_loss_and_no_hold():
    fleet = Fleet(64, 16)
    fleet.mute |= set(fleet.names[8:12])
    fleet.wait(60)
    (found,) = fleet.log
    assert (found.entity, found.facts["hold"], fleet.hold) == ("domain:r2", False, "")
    assert found.facts["nodes"] == ["n10", "n11", "n8", "n9"]


def test_a_few_nodes_in_several_places_hold_unless_all_else_confirms_it():
    fleet = Fleet(64, 16)
    scattered = {"n0", "n20", "n40"}
    fleet.mute |= scattered
    fleet.wait(60)
    assert "several places" in fleet.hold
    fleet.witness = Witness(stalled=frozenset(scattered))
    for name in scattered:
        fleet.send("scheduler.node", "n1", node=name, state="down")
    fleet.wait(5)
    assert fleet.hold == ""


def test_nodes_that_fall_silent_hours_apart_have_no_common_cause():
    fleet = Fleet(64, 16)
    for name in ("n0", "n20", "n40"):
        fleet.mute.add(name)
        fleet.wait(600)
    assert "correlated_loss" not in {item.klass for item in fleet.log}
    assert fleet.hold == ""


def test_a_silent_spare_is_told_after_five_minutes_and_taken_back_when_it_speaks():
    fleet = Fleet()
    fleet.mute.add("n3")
    fleet.wait(310)
    assert [(item.klass, item.entity) for item in fleet.log] == [("telemetry_lost", "node:n3")]
    fleet.mute.clear()
    fleet.wait(10)
    assert fleet.log[-1].stage == Stage.CLEARED


def test_a_silent_node_of_a_run_is_left_to_the_run_to_judge():
    fleet = Fleet()
    fleet.witness = Witness(busy=frozenset({"n3"}))
    fleet.mute.add("n3")
    fleet.wait(600)
    assert fleet.log == []


def test_nobody_heard_at_all_is_our_own_blindness():
    fleet = Fleet()
    fleet.mute |= set(fleet.names)
    fleet.wait(600)
    assert [item.klass for item in fleet.log] == ["blind"]
    assert fleet.hold == "no node is heard"
    fleet.mute.clear()
    fleet.wait(200)
    assert [item.stage for item in fleet.log] == [Stage.CONFIRMED, Stage.CLEARED]


def test_after_our_own_absence_the_fleet_is_observed_first():
    fleet = Fleet()
    fleet.wait(5)
    fleet.mute |= set(fleet.names[:8])
    fleet.now += 300
    fleet.wait(119)
    assert fleet.log == []
    fleet.wait(40)
    assert fleet.hold


def test_a_node_gone_for_a_day_no_longer_counts_as_watched():
    fleet = Fleet()
    fleet.mute.add("n3")
    for _ in range(90):
        fleet.now += 1000
        for name in fleet.names:
            if name not in fleet.mute:
                fleet.send("node.heartbeat", name)
        fleet.machine.sweep(fleet.now)
    assert "n3" not in fleet.machine.view().nodes


@pytest.mark.parametrize("moment", [10, 45, 320])
def test_a_restored_machine_goes_on_the_same(moment):
    one, two = Fleet(), Fleet()
    for fleet in (one, two):
        fleet.mute |= set(fleet.names[:8])
        fleet.wait(moment)
    two.machine = FleetMachine.restore(json.loads(json.dumps(two.machine.snapshot())), RunPolicy())
    assert two.wait(60) == one.wait(60)
    assert two.machine.snapshot() == one.machine.snapshot()


def test_the_hold_does_not_wait_for_the_class():
    fleet = Fleet()
    lost = frozenset(fleet.names[:8])
    fleet.witness = Witness(busy=frozenset(fleet.names))
    fleet.mute |= lost
    fleet.wait(40)
    assert fleet.hold
    assert fleet.log == []
    fleet.witness = Witness(busy=frozenset(fleet.names), stalled=lost)
    fleet.wait(1)
    assert [item.klass for item in fleet.log] == ["correlated_loss"]


def test_the_witness_is_gathered_from_the_views_of_the_runs():
    stage = Stage_(nodes=4)
    stage.launch()
    stage.train(1, 30, 2.0)
    stage.mute.add("n2")
    stage.train(31, 50, 2.0)
    witness = Witness.of([stage.machine.view()], kept_out=["q1"])
    assert witness.busy == {"n0", "n1", "n2", "n3", "q1"}
    assert "n2" in witness.advancing
    stage.wait(60)
    assert Witness.of([stage.machine.view()]).stalled == {"n0", "n1", "n2", "n3"}
