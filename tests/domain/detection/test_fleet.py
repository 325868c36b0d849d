import json

import pytest

from controlplane.domain.detection.fleet import FleetMachine, KeptOut, Witness
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
        end = self.now + seconds
        while self.now < end:
            self.now += min(1 if seconds <= 130 else 5, end - self.now)
            if self.now % 5 == 0:
                for name in self.names:
                    if name not in self.mute:
                        self.send("node.heartbeat", name)
            if seconds > 130:
                self.machine.awake(self.now - 1)
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
    fleet.wait(295)
    assert (fleet.log, fleet.hold) == ([], "")
    fleet.wait(20)
    assert [(item.klass, item.severity, item.run) for item in fleet.log] == [("telemetry_lost", "warning", None)]
    assert fleet.log[0].evidence == ()


def test_one_rack_of_a_large_fleet_is_one_loss_and_no_hold():
    fleet = Fleet(64, 16)
    fleet.mute |= set(fleet.names[8:12])
    fleet.wait(60)
    (found,) = fleet.log
    assert (found.entity, found.facts["hold"], fleet.hold) == ("domain:r2", False, "")
    assert found.facts["nodes"] == ["n10", "n11", "n8", "n9"]


def of_run(fleet, names, **words):
    homes = dict.fromkeys(fleet.names, ("demo", 1))
    busy = frozenset(fleet.names)
    return Witness(busy=busy, homes=homes, stalled=frozenset(fleet.names if names is None else names), **words)


def five_hosts():
    fleet = Fleet(64, 8)
    fleet.lost = fleet.names[24:29]
    fleet.mute |= set(fleet.lost)
    fleet.witness = of_run(fleet, (), spares=4)
    return fleet


def test_five_hosts_of_one_rack_are_one_loss_of_their_run_once_it_stands_still():
    fleet = five_hosts()
    fleet.wait(60)
    assert (fleet.log, fleet.hold) == ([], "")
    for name in fleet.lost:
        fleet.send("scheduler.node", "n1", node=name, state="down")
    fleet.witness = of_run(fleet, None, spares=4)
    fleet.wait(600)
    (found,) = fleet.log
    assert (found.klass, found.stage, found.entity) == ("correlated_loss", Stage.CONFIRMED, "domain:r3")
    assert (found.run, found.attempt, found.severity) == ("demo", 1, "critical")
    assert {key: found.facts[key] for key in ("nodes", "spares", "needed", "hold")} == {
        "nodes": fleet.lost, "spares": 4, "needed": 5, "hold": False,
    }  # fmt: skip
    assert {line.entity for line in found.evidence} == {"domain:r3"}
    assert "5 spares are needed, 4 are free, 1 short" in found.sentence


def test_without_the_word_of_the_scheduler_a_group_is_only_suspected_until_the_hold_is_over():
    fleet = five_hosts()
    fleet.witness = of_run(fleet, None)
    fleet.wait(85)
    assert [item.stage for item in fleet.log] == [Stage.SUSPECT]
    fleet.wait(10)
    assert [item.stage for item in fleet.log] == [Stage.SUSPECT, Stage.CONFIRMED]


def test_a_run_that_goes_on_without_what_it_lost_has_answered_it():
    fleet = five_hosts()
    fleet.witness = of_run(fleet, None)
    fleet.wait(120)
    told = len(fleet.log)
    left = {name: ("demo", 2) for name in fleet.names if name not in fleet.lost}
    fleet.witness = Witness(busy=frozenset(left), homes=left)
    fleet.wait(600)
    assert (len(fleet.log), fleet.hold) == (told, "")


def test_what_the_ledger_has_taken_out_is_not_told_again_and_a_second_rack_is_a_second_loss():
    fleet = five_hosts()
    fleet.witness = of_run(fleet, None)
    fleet.wait(120)
    told = len(fleet.log)
    fleet.witness = of_run(fleet, None, kept_out=frozenset(fleet.lost))
    fleet.wait(10)
    fleet.mute |= set(fleet.names[40:44])
    fleet.wait(120)
    second = fleet.log[told:]
    assert {item.entity for item in second} == {"domain:r5"}
    assert second[-1].facts["nodes"] == sorted(fleet.names[40:44])


def test_a_confirmed_loss_in_several_racks_stays_confirmed_while_the_run_is_being_stopped():
    fleet = Fleet(64, 16)
    scattered = ["n0", "n20", "n40"]
    fleet.mute |= set(scattered)
    for name in scattered:
        fleet.send("scheduler.node", "n1", node=name, state="down")
    fleet.witness = of_run(fleet, None)
    fleet.wait(60)
    fleet.witness = Witness(busy=frozenset(fleet.names))
    fleet.wait(60)
    assert fleet.hold == ""
    assert {(item.klass, item.run, item.entity) for item in fleet.log} == {("correlated_loss", "demo", "platform")}


def test_what_was_held_and_is_then_confirmed_passes_to_the_run():
    fleet = Fleet(64, 16)
    scattered = ["n0", "n20", "n40"]
    fleet.mute |= set(scattered)
    fleet.witness = of_run(fleet, None)
    fleet.wait(60)
    assert fleet.hold
    for name in scattered:
        fleet.send("scheduler.node", "n1", node=name, state="down")
    fleet.wait(2)
    assert fleet.hold == ""
    assert [(item.run, item.stage) for item in fleet.log] == [
        (None, Stage.CONFIRMED), ("demo", Stage.CONFIRMED), (None, Stage.CLEARED),
    ]  # fmt: skip


def test_a_whole_cluster_that_vanishes_is_held_for_ever_even_when_everything_confirms_it():
    fleet = Fleet(53, 1)
    gone = fleet.names[1:]
    fleet.mute |= set(gone)
    fleet.witness = of_run(fleet, None)
    for name in gone:
        fleet.send("scheduler.node", "n0", node=name, state="down")
    fleet.wait(3600)
    assert fleet.hold == "52 of 53 nodes fell silent together"
    (found,) = fleet.log
    assert (found.run, found.entity, found.severity, found.facts["hold"]) == (None, "platform", "critical", True)


def test_nodes_of_a_run_that_advances_are_no_part_of_anothers_loss():
    fleet = five_hosts()
    other = frozenset(fleet.lost[:1])
    fleet.witness = of_run(fleet, [*fleet.lost[1:]], advancing=other)
    fleet.wait(120)
    assert fleet.log[-1].facts["nodes"] == fleet.lost[1:]


def notice(fleet, names, begins, ends):
    data = {"what": "maintenance", "nodes": names, "begins_at_ms": begins * 1000, "ends_at_ms": ends * 1000}
    fleet.send("capacity.notice", "n19", **data)


def test_announced_silence_is_told_once_five_minutes_after_its_declared_end():
    fleet = Fleet()
    away = fleet.names[:16]
    notice(fleet, away, fleet.now, fleet.now + 600)
    fleet.mute |= set(away)
    fleet.wait(895)
    assert (fleet.log, fleet.hold) == ([], "")
    assert fleet.machine.in_maintenance("n3", fleet.now)
    fleet.wait(1200)
    (found,) = fleet.log
    assert (found.klass, found.entity, found.at - T0, found.evidence) == ("capacity", "platform", 900, ())
    fleet.mute.clear()
    fleet.wait(10)
    assert [item.stage for item in fleet.log] == [Stage.CONFIRMED, Stage.CLEARED]


def test_a_node_that_came_back_from_maintenance_is_judged_like_any_other():
    fleet = Fleet()
    notice(fleet, ["n3"], fleet.now, fleet.now + 60)
    fleet.wait(400)
    fleet.mute.add("n3")
    fleet.wait(310)
    assert [item.klass for item in fleet.log] == ["telemetry_lost"]


def test_an_idle_node_is_lost_when_it_is_silent_and_the_scheduler_says_so():
    fleet = Fleet()
    fleet.mute.add("n3")
    fleet.send("scheduler.node", "n1", node="n3", state="DOWN")
    fleet.wait(28)
    assert fleet.log == []
    fleet.wait(5)
    assert [(item.klass, item.entity, item.severity) for item in fleet.log] == [("node_lost", "node:n3", "warning")]


def stray(fleet, since):
    stage = Stage_(nodes=4)
    stage.launch()
    return Witness.of([stage.machine.view()], kept_out={"n2": KeptOut(state="quarantined", since=since, why="Xid 64")})


def test_a_quarantined_node_in_the_allocation_of_a_later_attempt_is_critical():
    fleet = Fleet()
    fleet.witness = stray(fleet, T0 - 60)
    fleet.wait(60)
    (found,) = fleet.log
    assert (found.klass, found.severity, found.run, found.attempt) == ("scheduler", "critical", "demo", 1)
    assert found.sentence == (
        "node n2 is quarantined and yet the scheduler put it into the allocation of attempt 1 of run demo"
    )
    fleet.witness = Witness.of([], kept_out={})
    fleet.wait(1)
    assert (fleet.log[-1].stage, fleet.log[-1].run) == (Stage.CLEARED, "demo")


def test_a_node_that_is_quarantined_while_it_trains_is_recoverys_to_take_out():
    fleet = Fleet()
    fleet.witness = stray(fleet, T0 + 60)
    fleet.wait(60)
    assert fleet.log == []


def test_the_ledger_is_held_against_allocations_twice_a_minute():
    fleet = Fleet()
    asked = [fleet.machine.asks(fleet.now)]
    fleet.witness = Witness.of([], kept_out={})
    fleet.wait(5)
    asked += [fleet.machine.asks(fleet.now + later) for later in (1, 29)]
    fleet.witness = Witness()
    fleet.wait(30)
    assert [*asked, fleet.machine.asks(fleet.now)] == [True, False, False, True]


def xid(fleet, node):
    fleet.mute.discard(node)
    fleet.send("node.log", node, source="kernel", text="NVRM: Xid (PCI:0000:48:00): 79, GPU has fallen off the bus.")


def test_a_gpu_that_fails_in_an_idle_machine_is_the_fleets_to_tell():
    fleet = Fleet()
    xid(fleet, "n3")
    fleet.wait(5)
    assert (fleet.log, fleet.machine.has_faults()) == ([], True)
    fleet.witness = Witness.of([], kept_out={})
    fleet.wait(5)
    assert [(item.klass, item.run, item.facts["node"]) for item in fleet.log] == [("gpu_fault", None, "n3")]


def test_a_gpu_that_failed_in_mid_run_is_not_told_again_when_the_run_has_gone_on_without_it():
    fleet, stage = Fleet(), Stage_(nodes=4)
    stage.launch()
    xid(fleet, "n3")
    fleet.witness = Witness.of([stage.machine.view()], kept_out={})
    fleet.wait(5)
    fleet.witness = Witness.of([], kept_out={})
    fleet.wait(5)
    assert fleet.log == []


def test_two_machines_under_one_name_are_told_until_one_is_left():
    fleet = Fleet()
    fleet.witness = Witness(disputed=frozenset({"n3"}))
    fleet.wait(5)
    fleet.witness = Witness(disputed=frozenset())
    fleet.wait(5)
    assert [(item.klass, item.stage, item.entity) for item in fleet.log] == [
        ("identity_conflict", Stage.CONFIRMED, "node:n3"), ("identity_conflict", Stage.CLEARED, "node:n3"),
    ]  # fmt: skip


def test_a_reader_that_stays_deaf_is_told_once_for_all_nodes_that_have_it():
    fleet = Fleet()
    fleet.mute |= {"n3", "n4"}
    for _ in range(70):
        fleet.wait(5)
        for name in ("n3", "n4"):
            fleet.send("node.heartbeat", name, readers={"dcgm": {"ok": False}})
    assert fleet.machine.deaf("n3", "dcgm", fleet.now)
    assert [(item.klass, item.stage, item.evidence) for item in fleet.log] == [("telemetry_lost", Stage.CONFIRMED, ())]
    assert "n3, n4" in fleet.log[0].sentence


def test_who_is_drained_at_the_scheduler_is_known_with_reason_and_owner():
    fleet = Fleet()
    fleet.send("scheduler.node", "n1", node="n3", state="DRAINED", reason="disk", owner="ana")
    since = fleet.now * 1000
    fleet.wait(1)
    fleet.send("scheduler.node", "n1", node="n3", state="drained", reason="disk", owner="ana")
    assert fleet.machine.drained() == {"n3": ("disk", "ana", since)}
    fleet.send("scheduler.node", "n1", node="n3", state="idle")
    assert fleet.machine.drained() == {}


def test_the_next_moment_at_which_silence_counts_is_known():
    fleet = Fleet()
    fleet.mute |= set(fleet.names)
    assert fleet.machine.due(fleet.now) == T0 + 30
    assert fleet.machine.due(T0 + 30) == T0 + 90


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
    witness = Witness.of([stage.machine.view()], kept_out={"q1": KeptOut(state="quarantined", since=T0)})
    assert witness.busy == {"n0", "n1", "n2", "n3", "q1"}
    assert "n2" in witness.advancing
    stage.wait(60)
    assert Witness.of([stage.machine.view()]).stalled == {"n0", "n1", "n2", "n3"}
