"""The counters of GPUs, read again and again: the same report says nothing twice, and hides nothing."""

from controlplane.domain.detection import codec, counters
from controlplane.domain.detection.hardware_state import Machine
from controlplane.domain.signals import Signal


def report(at_ms, *volatile, temperature=60):
    gpus = [
        {"uuid": f"GPU-{index}", "index": index, "temp_c": temperature, "ecc": {"volatile_uncorrected": count}}
        for index, count in enumerate(volatile)
    ]
    return Signal(kind="node.health", received=at_ms / 1000, at_ms=at_ms, node="n1", data={"gpus": gpus})


def said(machine, *reports):
    return [[risen.signature for risen in counters.take(machine, one)] for one in reports]


def test_a_report_that_says_the_same_again_is_read_and_says_nothing():
    machine = Machine()
    assert said(machine, report(1, 0, 0), report(2, 0, 0), report(3, 0, 0)) == [[], [], []]
    assert {gauge.at_ms for gauge in machine.gauges.values()} == {3}


def test_a_counter_that_rises_after_many_equal_reports_is_told():
    machine = Machine()
    assert said(machine, report(1, 0, 0), report(2, 0, 0), report(3, 0, 1))[-1] == ["gpu-ecc-volatile"]


def test_a_late_report_is_not_taken_for_how_things_stand():
    machine = Machine()
    said(machine, report(10, 5), report(5, 3), report(20, 3))
    assert said(machine, report(30, 4)) == [["gpu-ecc-volatile"]]


def test_a_gpu_that_is_gone_is_missed_however_alike_the_reports_are():
    machine = Machine()
    said(machine, report(1, 0, 0), report(2, 0, 0))
    gone = said(machine, report(3, 0), report(4, 0), report(5, 0))
    assert gone[1] == ["gpu-missing"]


def test_a_restored_machine_goes_on_alike_without_what_only_saves_work():
    machine = Machine()
    said(machine, report(1, 0, 0), report(2, 0, 0))
    assert "alike" not in codec.dump(machine)
    restored = codec.load(Machine, codec.dump(machine))
    following = [report(3, 0, 0), report(4, 0, 2, temperature=70), report(5, 0, 2, temperature=70)]
    assert said(restored, *following) == said(machine, *following)
    assert codec.dump(restored) == codec.dump(machine)
