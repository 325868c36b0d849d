import random

import pytest

from controlplane.domain.detection import hardware
from controlplane.domain.detection.hardware import fleet_scope
from controlplane.domain.detection.hardware_rules import forgive
from controlplane.domain.detection.hardware_state import MAX_FAULTS, HardwareState
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.detection.unrecognised import MAX_KINDS, listed
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import T0, Stage

DAY = 86_400.0
PCI = "0000:4c:00"
WARP = "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address"


def uuid(node):
    return f"GPU-{node}-0000"


def hello(stage, node, boot="boot-1", **words):
    gpus = [{"index": 3, "uuid": uuid(node), "pci": f"{PCI}.0"}, {"index": 4, "uuid": f"{uuid(node)}b", "pci": "x"}]
    stage.send("node.hello", node=node, run=None, boot_id=boot, hardware={"gpus": gpus}, **words)


def training(*, introduced=True, **words):
    stage = Stage(**words)
    if introduced:
        for node in stage.names:
            hello(stage, node)
    stage.launch()
    stage.train(1, 3, 2.0)
    return stage


def log(stage, node, text, **words):
    data = {"source": "kernel", "boot_id": "boot-1", "gap": False} | words
    at = data.pop("at", None)
    return stage.send("node.log", node=node, run=None, at=at, text=text, **data)


def xid(stage, node, code, detail="", *, pci=PCI, pid="<unknown>", **words):
    return log(stage, node, f"NVRM: Xid (PCI:{pci}): {code}, pid='{pid}', name=<unknown>, {detail}", **words)


def health(stage, node, *gpus):
    return stage.send("node.health", node=node, run=None, gpus=list(gpus), host={}, disks=[], nics=[])


def crash(stage, rank, message="CUDA error: unspecified launch failure"):
    stage.rank("rank.exited", rank, exit_code=1, error={"type": "RuntimeError", "message": message})


def faults(stage):
    return [item for item in stage.log if item.klass == "gpu_fault"]


def shown(stage):
    return {one.name: one for one in listed(stage.machine._state.hardware.unknown)}


def verdict(stage):
    return diagnose(list({item.key: item for item in stage.log}.values()), now=stage.now, policy=stage.policy)


def test_a_gpu_that_fell_off_the_bus_is_named_with_its_node_at_the_next_sweep():
    stage = training()
    xid(stage, "n2", 79, "GPU has fallen off the bus.")
    (found,) = stage.sweep()
    assert (found.klass, found.stage, found.entity) == ("gpu_fault", Sure.CONFIRMED, f"gpu:{uuid('n2')}")
    assert found.sentence == f"GPU 3 of n2 ({uuid('n2')}) fell off the PCIe bus (Xid 79)"
    assert [(line.entity, line.weight, line.kind) for line in found.evidence] == [("node:n2", 6.0, "xid 79")]
    assert (found.facts["action"], found.facts["fingerprint"]) == ("quarantine_now", "xid 79")
    assert verdict(stage).act_on == "n2"


def test_lines_that_repeat_are_one_fault_and_no_news():
    stage = training()
    for _ in range(3):
        xid(stage, "n2", 79)
        stage.wait(0.4)
    stage.wait(5)
    assert len(faults(stage)) == 1


def test_a_gpu_in_an_unknown_slot_is_blamed_on_its_node():
    stage = training(introduced=False)
    xid(stage, "n2", 79)
    (found,) = stage.sweep()
    assert found.entity == "node:n2"
    assert found.sentence == "the GPU at 0000:4c:00 of n2 fell off the PCIe bus (Xid 79)"


def test_the_process_that_a_line_names_gives_the_gpu_and_the_rank():
    stage = training(introduced=False)
    stage.rank("rank.started", 2, pid=4002, gpu_uuid="GPU-of-rank-2")
    xid(stage, "n2", 48, pid=4002)
    (found,) = stage.sweep()
    assert found.entity == "gpu:GPU-of-rank-2"
    assert found.facts["places"] == {"2": "n2"}


@pytest.mark.parametrize("code", [48, 64, 79, 95, 119, 120, 140])
def test_codes_that_end_whatever_runs_there_are_acted_on_at_once(code):
    stage = training()
    xid(stage, "n1", code)
    stage.sweep()
    assert faults(stage)[0].facts["action"] == "quarantine_now"
    assert faults(stage)[0].severity == "critical"


@pytest.mark.parametrize("code", [13, 31, 38, 43, 45, 61, 92, 94, 154])
def test_codes_that_explain_or_follow_condemn_nobody(code):
    stage = training()
    xid(stage, "n1", code)
    stage.wait(30)
    assert faults(stage) == []


def test_a_row_to_be_remapped_waits_for_the_next_save():
    stage = training()
    xid(stage, "n1", 63)
    (found,) = stage.sweep()
    assert (found.facts["action"], found.severity) == ("drain_at_save", "warning")


def test_a_broken_link_waits_for_the_save_until_the_attempt_dies_of_it():
    stage = training()
    xid(stage, "n1", 74)
    stage.sweep()
    assert faults(stage)[-1].facts["action"] == "drain_at_save"
    crash(stage, 1)
    stage.wait(3)
    assert (faults(stage)[-1].facts["action"], faults(stage)[-1].severity) == ("quarantine_now", "critical")
    assert verdict(stage).act_on == "n1"


def test_a_link_error_that_calls_itself_not_fatal_is_counted():
    stage = training()
    xid(stage, "n1", 149, "NETIR Nonfatal XC0 i0 Link 04 (0x4)")
    stage.wait(3)
    assert faults(stage) == []


def test_a_contained_error_explains_the_crash_and_spares_the_node():
    stage = training()
    xid(stage, "n1", 94, pid=4001)
    crash(stage, 1, "CUDA error: an illegal memory access was encountered")
    stage.wait(3)
    (said,) = [line for line in hardware.testimony(stage.machine._state, stage.policy, stage.now) if line.weight > 0]
    assert (said.entity, said.weight, said.kind) == ("node:n1", 2.0, "xid 94")
    assert verdict(stage).act_on is None


@pytest.mark.parametrize("code", [13, 31, 92, 94])
def test_the_same_on_the_same_gpu_twice_in_a_day_is_hardware(code):
    stage = training()
    xid(stage, "n1", code, WARP)
    stage.wait(5)
    stage.now += 2 * 3600
    xid(stage, "n1", code, WARP)
    stage.sweep()
    (found,) = faults(stage)
    assert found.evidence[0].weight == 6.0
    assert "2 times in a day on the same GPU" in found.sentence


def test_one_burst_is_one_time_and_two_days_are_not_one():
    stage = training()
    for _ in range(20):
        xid(stage, "n1", 94)
        stage.wait(10, every=10)
    assert faults(stage) == []
    stage.now += 2 * DAY
    xid(stage, "n1", 94)
    stage.wait(2)
    assert faults(stage) == []


def test_another_unit_of_the_gpu_is_not_the_same_fault():
    stage = training()
    xid(stage, "n1", 13, WARP)
    stage.now += 600
    xid(stage, "n1", 13, WARP.replace("TPC 1", "TPC 6"))
    stage.wait(2)
    assert faults(stage) == []


def test_the_same_on_several_gpus_is_the_program():
    stage = training()
    for node in ("n0", "n1", "n3"):
        xid(stage, node, 31)
    stage.now += 600
    xid(stage, "n1", 31)
    crash(stage, 1)
    stage.wait(3)
    lines = [line for line in hardware.testimony(stage.machine._state, stage.policy, stage.now) if line.weight > 0]
    assert faults(stage) == []
    assert {line.entity for line in lines} == {"workload"}


def test_a_repeated_contained_fault_is_remembered_over_attempts():
    stage = training()
    xid(stage, "n1", 31)
    crash(stage, 1)
    stage.wait(5)
    stage.send("attempt.exited", reason="failed")
    stage.wait(60)
    stage.launch()
    stage.train(1, 10, 2.0)
    assert faults(stage) == []
    stage.now += 600
    xid(stage, "n1", 31)
    stage.sweep()
    assert [item.attempt for item in faults(stage)] == [2]


def test_what_an_earlier_attempt_died_of_is_history_for_the_next():
    stage = training()
    xid(stage, "n1", 79)
    stage.sweep()
    stage.wait(30)
    stage.launch()
    stage.train(1, 5, 2.0)
    assert [item.attempt for item in faults(stage)] == [1]


def test_a_line_of_an_earlier_boot_is_history():
    stage = training()
    hello(stage, "n1", boot="boot-2")
    xid(stage, "n1", 79, boot_id="boot-1")
    stage.wait(5)
    assert faults(stage) == []


def test_a_line_stamped_before_the_attempt_began_is_history_once_the_clock_is_known():
    stage = training()
    stage.wait(120)
    xid(stage, "n1", 79, at=T0 - 3600)
    stage.wait(5)
    assert faults(stage) == []


def test_a_clock_twenty_seconds_fast_changes_no_verdict():
    stage = training()
    xid(stage, "n2", 79, at=stage.now + 20)
    stage.sweep()
    assert [item.entity for item in faults(stage)] == [f"gpu:{uuid('n2')}"]


def test_what_a_machine_showed_before_it_was_released_is_history():
    stage = training()
    xid(stage, "n1", 79)
    forgive(stage.machine._state.hardware, "n1", stage.now)
    stage.wait(5)
    assert faults(stage) == []


def test_a_reboot_in_mid_run_testifies_against_the_node():
    stage = training()
    hello(stage, "n1", boot="boot-2")
    stage.wait(2)
    (line,) = hardware.testimony(stage.machine._state, stage.policy, stage.now)
    assert (line.entity, line.kind) == ("node:n1", "reboot")


def test_a_fault_of_a_node_outside_the_attempt_is_the_fleets():
    stage = training()
    xid(stage, "spare-1", 79)
    stage.wait(3)
    assert faults(stage) == []
    record = stage.machine._state.hardware
    scope = fleet_scope(lambda _node, _at_ms: None, aside=stage.names)
    (found,) = hardware.findings(record, scope, stage.policy, stage.now)
    assert (found.run, found.attempt, found.entity) == (None, None, "node:spare-1")


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ({"ecc": {"volatile_uncorrected": 0}}, {"ecc": {"volatile_uncorrected": 2}}, "quarantine_now"),
        ({"ecc": {"aggregate_uncorrected_sram": 0}}, {"ecc": {"aggregate_uncorrected_sram": 10}}, "quarantine_now"),
        ({}, {"ecc": {"aggregate_uncorrected": 10}}, "drain_at_save"),
        ({}, {"remap": {"pending": True, "failed": False}}, "drain_at_save"),
        ({}, {"remap": {"pending": False, "failed": True}}, "quarantine_now"),
    ],
)
def test_counters_condemn_as_codes_do(before, after, action):
    stage = training()
    health(stage, "n1", {"uuid": uuid("n1")} | before)
    stage.wait(15)
    health(stage, "n1", {"uuid": uuid("n1")} | after)
    stage.wait(25)
    assert [(item.entity, item.facts["action"]) for item in faults(stage)] == [(f"gpu:{uuid('n1')}", action)]


def test_errors_counted_before_the_first_reading_are_of_another_day():
    stage = training()
    for _ in range(3):
        health(stage, "n1", {"uuid": uuid("n1"), "ecc": {"volatile_uncorrected": 7}, "nvlink_errors": 900})
        stage.wait(15)
    assert faults(stage) == []


@pytest.mark.parametrize("line_first", [True, False])
def test_a_counter_that_rises_beside_a_contained_error_tells_of_the_same(line_first):
    stage = training()
    health(stage, "n1", {"uuid": uuid("n1"), "ecc": {"volatile_uncorrected": 0}})
    stage.wait(15)
    if line_first:
        xid(stage, "n1", 94)
    health(stage, "n1", {"uuid": uuid("n1"), "ecc": {"volatile_uncorrected": 1}})
    stage.wait(5)
    if not line_first:
        xid(stage, "n1", 94)
    stage.wait(30)
    assert faults(stage) == []


def test_a_gpu_that_is_missing_twice_among_its_fellows_is_gone():
    stage = training()
    health(stage, "n1", {"uuid": uuid("n1")}, {"uuid": f"{uuid('n1')}b"})
    for _ in range(2):
        stage.wait(15)
        assert faults(stage) == []
        health(stage, "n1", {"uuid": f"{uuid('n1')}b"})
    stage.sweep()
    assert faults(stage)[0].entity == f"gpu:{uuid('n1')}"


def test_an_empty_list_of_gpus_says_nothing():
    stage = training()
    for _ in range(4):
        health(stage, "n1")
        stage.wait(15)
    assert faults(stage) == []


def test_what_no_row_knows_is_counted_and_shown_and_never_acted_on():
    stage = training()
    xid(stage, "n1", 500)
    stage.wait(7)
    xid(stage, "n2", 500)
    seen = shown(stage)["xid 500"]
    assert faults(stage) == []
    assert (seen.count, seen.nodes, seen.node, seen.last_at - seen.first_at) == (2, 2, "n2", 7)


def test_lines_that_differ_in_numbers_alone_are_one_kind_and_what_no_screen_shows_becomes_a_gap():
    stage = training()
    for number in range(3):
        log(stage, "n1", f"frobnicator {number}: fatal\x1b[31m error at 0x{number}f\u202e")
        stage.wait(1)
    (seen,) = shown(stage).values()
    assert (seen.name, seen.count) == ("machine line: frobnicator # fatal # error at #", 3)
    assert seen.said == "frobnicator 2: fatal [31m error at 0x2f"


def test_a_flood_of_unknown_lines_is_counted_together_and_hides_no_unknown_code():
    stage = training()
    for number in range(3 * MAX_KINDS):
        log(stage, "n1", f"error of {'x' * number}")
    xid(stage, "n1", 500)
    kinds = shown(stage)
    assert len(kinds) == MAX_KINDS + 2
    assert kinds["other lines"].count == 2 * MAX_KINDS
    assert kinds["xid 500"].count == 1
    stage.now += 90_000
    log(stage, "n1", "error after a day")
    assert "machine line: error after a day" in shown(stage)
    assert len(shown(stage)) == MAX_KINDS + 2


def test_a_flood_of_faults_is_bounded_and_keeps_the_gravest():
    stage = training()
    xid(stage, "n1", 79)
    for number in range(2 * MAX_FAULTS):
        xid(stage, "n1", 45, pci=f"0000:{number:04x}:00")
    stage.sweep()
    assert len(stage.machine._state.hardware.faults) <= MAX_FAULTS
    assert len(faults(stage)) == 1


def test_order_and_repetition_of_arrival_change_no_verdict():
    stage = training()
    stage.signals.clear()
    for code in (94, 63, 79):
        xid(stage, "n1", code)
        stage.now += 1
    health(stage, "n1", {"uuid": uuid("n1"), "remap": {"pending": True}})
    plain = stage.sweep()
    for seed in range(5):
        other = training()
        shuffled = [*stage.signals, *stage.signals]
        random.Random(seed).shuffle(shuffled)
        other.now = stage.now
        for signal in shuffled:
            other.machine.observe(signal, other.now)
        assert [item.key for item in other.sweep()] == [item.key for item in plain]
        assert other.last("gpu_fault") if other.log else True
        assert {line.text for item in other.machine.sweep(other.now) for line in item.evidence} == set()


def test_a_machine_restored_from_its_snapshot_goes_on_alike():
    stage = training()
    xid(stage, "n1", 63)
    stage.sweep()
    again = RunMachine.restore(stage.machine.snapshot(), stage.policy)
    assert again.snapshot() == stage.machine.snapshot()
    assert again.sweep(stage.now) == stage.machine.sweep(stage.now) == []


@pytest.mark.parametrize(
    "data",
    [
        {"text": None},
        {"text": 7, "source": 3, "boot_id": []},
        {"text": "NVRM: Xid (PCI:" + "4" * 5000 + "): 79"},
        {"text": "NVRM: Xid (): 79, pid=", "gap": "yes"},
    ],
)
def test_a_strange_line_harms_nothing(data):
    stage = training()
    stage.send("node.log", node="n1", run=None, **data)
    stage.send("node.health", node="n1", run=None, gpus=[None, 3, {"uuid": 5}, {"uuid": "g", "ecc": [], "remap": 1}])
    stage.send("node.hello", node="n1", run=None, boot_id=9, hardware={"gpus": [7, {"uuid": "u", "pci": 4}]}, labels=1)
    stage.sweep()


def test_the_counter_waits_and_says_when_it_will_have_waited():
    stage = training()
    record, policy = HardwareState(), RunPolicy()
    assert hardware.next_settled(record, policy, stage.now) is None
    health(stage, "n1", {"uuid": uuid("n1"), "ecc": {"volatile_uncorrected": 0}})
    stage.wait(15)
    health(stage, "n1", {"uuid": uuid("n1"), "ecc": {"volatile_uncorrected": 1}})
    risen = stage.now
    assert hardware.due(stage.machine._state, policy, stage.now) == risen + policy.ecc_settle_s
    stage.wait(policy.ecc_settle_s)
    assert hardware.due(stage.machine._state, policy, stage.now) is None
    assert len(faults(stage)) == 1


def test_a_node_that_said_hello_before_the_run_was_its_own_is_introduced_by_the_fleet():
    stage = training(introduced=False)
    assert stage.machine.strangers() == stage.names
    stage.machine.introduce("n2", {"gpus": [{"index": 3, "uuid": uuid("n2"), "pci": f"{PCI}.0"}]}, {"switch": "sw1"})
    assert "n2" not in stage.machine.strangers()
    xid(stage, "n2", 79)
    stage.sweep()
    assert faults(stage)[0].entity == f"gpu:{uuid('n2')}"


def test_the_fleet_is_not_asked_for_ever():
    stage = training(introduced=False)
    for _ in range(50):
        for name in stage.machine.strangers():
            stage.machine.introduce(name, {}, {})
    assert stage.machine.strangers() == []
