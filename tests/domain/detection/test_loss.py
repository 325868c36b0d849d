"""A spike that heals is written down, one that does not is confirmed, and a loss that is no number is at once."""

import json
import random
from dataclasses import replace

import pytest

from controlplane.domain.detection.loss import SAYS_NOT_FINITE
from controlplane.domain.detection.loss_steps import reference
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.findings import Stage as Of
from controlplane.domain.signals import Signal

T0, STEP_S = 1_000_000.0, 105.0
SPIKE = [2.199, 2.220, 2.595, 2.242, 2.345, 5.098, 3.492, 3.213, 2.805]
SPIKE_GRAD = [0.242, 0.947, 2.39, 15.9, 145, 960, 353, 379, 650]


class Training:
    """A run whose rank 0 tells its numbers, judged after every step."""

    def __init__(self, *, policy=None, world=8, resume=31_000, supports=("skip_batches",)):
        self.policy = policy or RunPolicy()
        self.machine = RunMachine("bloom", self.policy)
        self.now, self.world, self.attempt, self.log = T0, world, 0, []
        self.launch(resume, supports)

    def launch(self, resume, supports=("skip_batches",)):
        self.attempt += 1
        nodes = [f"n{number}" for number in range(self.world)]
        self.send(
            "attempt.started", nodes=nodes, world_size=self.world, resume={"step": resume}, supports=list(supports)
        )
        for rank in range(self.world):
            self.send("rank.started", rank=rank, node=f"n{rank}")
        self.step = resume

    def signal(self, kind, *, rank=None, node="n0", later=0.0, **data):
        return Signal(
            kind=kind, received=self.now + later, at_ms=round((self.now + later) * 1000), node=node, run="bloom",
            attempt=self.attempt, rank=rank, data=data,
        )  # fmt: skip

    def send(self, kind, **words):
        signal = self.signal(kind, **words)
        self.machine.observe(signal, self.now)
        return signal

    def sweep(self, later=0.0):
        self.log += [item for item in self.machine.sweep(self.now + later) if item.detector == "D-12"]

    def next(self, loss, grad=0.25, **data):
        self.now += STEP_S
        self.step += 1
        self.send("rank.step", rank=0, step=self.step, duration_ms=STEP_S * 1000, loss=loss, grad_norm=grad, **data)
        self.sweep()
        self.sweep(later=2.0)

    def usual(self, count, *, around=2.205, spread=0.012, seed=1):
        noise = random.Random(seed)
        for _ in range(count):
            self.next(around + noise.gauss(0, spread), 0.25 + noise.gauss(0, 0.02))

    def stages(self):
        return [(item.facts["kind"], item.stage) for item in self.log]


def bloom(*, policy=None):
    """Train up to step 31222 with the published figures of the spike at 31216."""
    run = Training(policy=policy)
    run.usual(213)
    for loss, grad in zip(SPIKE, SPIKE_GRAD, strict=True):
        run.next(loss, grad)
    return run


def test_a_spike_that_heals_is_watched_from_its_first_step_and_cleared_without_a_rollback():
    run = bloom()
    assert run.stages() == [("spike", Of.SUSPECT)]
    assert run.log[0].facts["onset_step"] == 31_216
    loss = 2.805
    while run.step < 31_260:
        loss = 2.216 + (loss - 2.216) * 0.8
        run.next(loss, 0.267)
    assert run.stages() == [("spike", Of.SUSPECT), ("spike", Of.CLEARED)]
    assert run.log[1].key == run.log[0].key
    assert 31_226 <= int(run.log[1].sentence.rsplit(" ", 1)[1]) <= 31_260
    assert {item.severity for item in run.log} == {"warning", "info"}


def test_the_same_spike_without_recovery_is_confirmed_after_fifty_steps():
    run = bloom()
    while run.stages()[-1][1] is not Of.CONFIRMED:
        run.next(2.8, 300)
    found = run.log[-1]
    assert (run.step, found.facts["onset_step"], found.facts["kind"]) == (31_266, 31_216, "spike")
    assert found.facts["supports_skip"]
    assert found.severity == "critical"
    assert not any(line.entity.startswith(("node", "rank")) for line in found.evidence)


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", float("nan")])
def test_a_loss_that_is_no_number_is_confirmed_at_once(word):
    run = Training()
    run.usual(60)
    run.next(word, "nan")
    assert run.stages() == [("nan", Of.SUSPECT), ("nan", Of.CONFIRMED)]
    assert run.log[-1].at - run.now <= 1
    assert run.log[-1].facts["onset_step"] == run.step


def test_a_loss_that_is_no_number_needs_no_reference():
    run = Training(resume=0)
    run.next("nan")
    assert run.stages()[-1] == ("nan", Of.CONFIRMED)


def test_an_update_that_was_skipped_gets_three_steps():
    run = Training()
    run.usual(60)
    run.next("nan", "inf", skipped=True)
    run.next("nan", "inf", skipped=True)
    assert run.stages() == [("nan", Of.SUSPECT)]
    run.next("nan", "inf", skipped=True)
    assert run.stages()[-1] == ("nan", Of.CONFIRMED)


def test_one_skipped_update_heals_by_itself():
    run = Training()
    run.usual(60)
    run.next("nan", "inf", skipped=True)
    run.usual(10)
    assert run.stages() == [("nan", Of.SUSPECT), ("nan", Of.CLEARED)]


def test_a_gradient_that_overflows_with_a_usual_loss_is_no_trouble():
    run = Training()
    run.usual(80)
    run.next(2.21, "inf", skipped=True)
    run.usual(20)
    assert run.log == []


def test_what_all_ranks_report_blames_no_rank():
    run = Training()
    run.usual(60)
    run.now += STEP_S
    run.send("rank.step", rank=0, step=run.step + 1, loss="nan")
    run.now += 0.2
    for rank in range(8):
        run.send("rank.log", rank=rank, node=f"n{rank}", stream="stderr", text=f"loss is nan at step {run.step + 1}")
    run.sweep(later=2)
    assert run.log[-1].facts["ranks"] == list(range(8))
    assert run.log[-1].evidence[0].text.startswith("all 8 ranks report")
    assert {line.entity for line in run.log[-1].evidence} == {"workload"}


def test_a_single_rank_of_many_that_sees_no_number_is_named_with_three():
    run = Training()
    run.usual(60)
    run.now += STEP_S
    run.send("rank.step", rank=0, step=run.step + 1, loss="nan")
    run.send("rank.log", rank=5, node="n5", stream="stderr", text="rank 5: found NaN in local grad norm")
    run.sweep(later=2)
    found = run.log[-1]
    assert [(line.entity, line.weight) for line in found.evidence] == [("rank:5", 3.0)]
    assert found.facts["places"]["5"] == "n5"
    assert found.facts["transient"]


def test_a_rank_that_stands_alone_against_others_with_numbers_is_named():
    run = Training()
    run.usual(60)
    run.now += STEP_S
    run.send("rank.step", rank=0, step=run.step + 1, loss=2.2)
    run.send("rank.step", rank=3, node="n3", step=run.step + 1, loss="nan")
    run.send("rank.step", rank=0, step=run.step + 2, loss="nan")
    run.sweep(later=2)
    assert run.stages() == [("nan", Of.CONFIRMED)]
    assert run.log[0].facts["onset_step"] == run.step + 1
    assert [line.entity for line in run.log[0].evidence] == ["rank:3"]


def test_the_only_rank_that_writes_a_log_is_not_blamed_for_it():
    run = Training()
    run.usual(60)
    run.now += STEP_S
    run.send("rank.step", rank=0, step=run.step + 1, loss="nan")
    run.send("rank.log", rank=0, stream="stderr", text="loss is nan")
    run.sweep(later=2)
    assert {line.entity for line in run.log[-1].evidence} == {"workload"}


def test_a_loss_scale_at_its_floor_is_confirmed_at_the_third_step():
    run = Training()
    for scale in [8.0, 4.0, 2.0]:
        run.next(2.2, loss_scale=scale)
    run.next(2.2, loss_scale=1.0)
    run.next(2.2, loss_scale=1.0)
    assert run.log == []
    run.next(2.2, loss_scale=1.0)
    assert run.stages()[-1] == ("scale", Of.CONFIRMED)


def test_a_loss_scale_that_never_was_above_one_means_nothing():
    run = Training()
    for _ in range(80):
        run.next(2.2, loss_scale=1.0)
    assert run.log == []


def test_a_loss_scale_that_fell_ahead_of_the_spike_is_told_as_its_early_sign():
    run = Training()
    run.usual(100)
    for scale in [32_768.0, 16_384.0, 8192.0, 4096.0, 2048.0]:
        run.next(2.2, loss_scale=2 * scale)
        run.next(2.2, loss_scale=scale)
    assert run.log == []
    run.next(2.6, 3.0, loss_scale=1024.0)
    assert any("from 65536 to 1024" in line.text for line in run.log[0].evidence)


def test_a_slow_rise_is_a_warning_and_asks_for_nothing():
    run = Training()
    run.usual(260)
    for number in range(200):
        run.next(2.205 + number * 0.0006, 0.25)
    assert ("drift", Of.SUSPECT) in run.stages()
    assert all(item.stage is not Of.CONFIRMED for item in run.log)
    assert run.log[-1].severity == "warning"


def test_a_loss_that_is_lower_than_plausible_is_a_warning_after_three_steps():
    run = Training()
    run.usual(200)
    run.next(1.2)
    run.next(1.2)
    assert run.log == []
    run.next(1.2)
    assert run.stages() == [("below", Of.SUSPECT)]
    run.usual(1, seed=2)
    assert run.stages()[-1] == ("below", Of.CLEARED)


def test_a_declared_floor_needs_no_reference():
    run = Training(policy=RunPolicy(loss_floor=1.0))
    for _ in range(3):
        run.next(0.5)
    assert run.stages() == [("below", Of.SUSPECT)]


def test_a_falling_loss_of_a_young_run_is_no_trouble():
    run, noise = Training(resume=0), random.Random(3)
    for number in range(600):
        run.next(2.2 + 9 / (1 + number / 20) + noise.gauss(0, 0.05), 1.0 + noise.gauss(0, 0.1))
    assert run.log == []


def test_heavy_tailed_noise_of_two_days_confirms_nothing():
    run, noise = Training(), random.Random(7)
    for _ in range(2_000):
        run.now += STEP_S
        run.step += 1
        tail = noise.gauss(0, 1) / (noise.gammavariate(1.5, 1 / 1.5) ** 0.5)
        run.send("rank.step", rank=0, step=run.step, loss=2.2 + 0.012 * tail, grad_norm=0.25)
        run.sweep()
    assert all(item.stage is not Of.CONFIRMED for item in run.log)


def test_a_new_attempt_starts_over_and_remembers_where_it_was_rolled_back():
    run = bloom()
    for _ in range(50):
        run.next(2.8, 300)
    for expected in (1, 2):
        run.launch(31_100)
        run.usual(115, seed=expected)
        for _ in range(51):
            run.next(2.8, 300)
        assert run.stages()[-1] == ("spike", Of.CONFIRMED)
        assert run.log[-1].facts["rollbacks"] == expected
    assert run.log[-1].facts["earlier_onsets"] == [31_216, 31_216]


def test_a_crash_without_trouble_of_the_loss_is_no_rollback():
    run = Training()
    run.usual(60)
    run.launch(31_000)
    run.usual(60)
    run.next("nan")
    assert run.log[-1].facts["rollbacks"] == 0


def told(policy, arrivals):
    machine = RunMachine("bloom", policy)
    found = []
    for now, signals in arrivals:
        for each in signals:
            machine.observe(each, now)
        found += [item for item in machine.sweep(now) if item.detector == "D-12"]
    return machine, found


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_come_twice_and_out_of_order_change_no_verdict(seed):
    run, noise = Training(), random.Random(seed)
    start = run.signal("attempt.started", nodes=["n0"], world_size=1, resume={"step": 0})
    losses = [2.2 + noise.gauss(0, 0.01) for _ in range(80)] + [2.9] * 52
    steps = [
        replace(
            run.signal("rank.step", rank=0, step=number, loss=loss, grad_norm=3.0 if loss > 2.5 else 0.2),
            at_ms=round((T0 + number) * 1000), received=T0 + number,
        )
        for number, loss in enumerate(losses, 1)
    ]  # fmt: skip
    plain = [(T0, [start]), *((step.received, [step]) for step in steps), (T0 + 200, [])]
    late = sorted(((step.received + noise.uniform(0, 5), step) for step in [*steps, *steps]), key=lambda pair: pair[0])
    mixed = [(T0, [start]), *((at, [replace(step, received=at)]) for at, step in late), (T0 + 200, [])]
    _, first = told(RunPolicy(), plain)
    machine, second = told(RunPolicy(), mixed)
    said = [(item.key, item.stage, item.sentence) for item in first]
    assert [(item.key, item.stage, item.sentence) for item in second] == said
    assert said[-1][1] is Of.CONFIRMED
    again = RunMachine.restore(json.loads(json.dumps(machine.snapshot())), RunPolicy())
    assert again.snapshot() == machine.snapshot()


def test_a_missing_step_is_given_up_after_a_while_and_due_says_when():
    run = Training()
    run.usual(60)
    run.step += 1
    run.now += STEP_S
    run.send("rank.step", rank=0, step=run.step + 1, loss="nan")
    run.sweep()
    assert run.log == []
    assert run.machine.due(run.now) <= run.now + run.policy.loss_reorder_s
    run.sweep(later=run.policy.loss_reorder_s)
    assert run.stages()[0][0] == "nan"


def test_steps_that_go_back_inside_an_attempt_start_over():
    run = bloom()
    run.step = 31_100
    run.usual(20)
    assert run.stages()[-1] == ("spike", Of.CLEARED)
    assert "went back" in run.log[-1].sentence


@pytest.mark.parametrize(
    "data",
    [{"step": "x", "loss": 1}, {"loss": "nan"}, {"step": 2**80, "loss": "nan"}, {"step": -1}, {"step": 1, "loss": [1]},
     {"step": 5, "loss": "banana"}, {"step": 5, "loss": True, "grad_norm": {}}],
)  # fmt: skip
def test_strange_values_say_nothing(data):
    run = Training(resume=0)
    run.send("rank.step", rank=0, **data)
    run.send("rank.log", rank=0, text=None)
    run.sweep(later=20)
    assert run.log == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("loss is nan at step 532", True),
        ("iteration 7: lm loss: NaN", True),
        ("found NaN in local grad norm in backward pass", True),
        ("non-finite loss detected, aborting", True),
        ("check_for_nan_in_loss_and_grad ........ True", False),
        ("loss 2.31 finance inference", False),
        ("OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768", False),
    ],
)
def test_lines_of_the_log_are_read_with_care(line, says):
    assert bool(SAYS_NOT_FINITE.search(line)) is says


def test_the_reference_is_the_median_and_the_scaled_deviation_with_a_floor():
    assert reference([1.0, 2.0, 3.0, 4.0, 100.0], RunPolicy()).sigma == pytest.approx(1.4826)
    assert reference([2.0] * 10, RunPolicy()).sigma == pytest.approx(0.01)
