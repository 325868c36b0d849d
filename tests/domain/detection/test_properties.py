"""What must hold for any story: exact resumption, harmless repeats, harmless small disorder."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.domain.detection.intake import NODE_RULES, RUN_RULES
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.signals import Signal

POLICY = RunPolicy.from_overrides(
    {"hang_floor_s": 6, "delta_s": 1, "min_samples": 4, "warmup_steps": 1, "silence_s": 8, "silence_hold_s": 4}
)
NODES = ["n0", "n1", "n2"]
LATENESS_S = 3
PROGRESS = {"D-01", "D-02", "D-03", "D-11", "D-13"}
"""The detectors whose verdicts rest on steps, phases, ends and launches."""
LONG = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

steps = st.tuples(st.just("step"), st.integers(0, 2), st.integers(1, 3))
ends = st.tuples(st.just("end"), st.integers(0, 2), st.sampled_from([0, 1, 9, 11, 15]))
mutes = st.tuples(st.just("mute"), st.integers(0, 2), st.booleans())
phases = st.tuples(st.just("phase"), st.sampled_from(["eval", "save"]), st.sampled_from(["begin", "progress", "end"]))
stacks = st.tuples(st.just("stack"), st.integers(0, 2), st.booleans())
others = st.tuples(st.sampled_from(["rest", "launch", "gap", "finish"]), st.integers(0, 0), st.integers(0, 0))
waits = st.tuples(st.just("wait"), st.integers(1, 30), st.integers(0, 0))
saves = st.tuples(st.just("save"), st.integers(0, 9), st.sampled_from(["saving", "complete", "torn"]))
words = st.tuples(st.just("word"), st.integers(0, 9), st.integers(0, 0))
leaps = st.tuples(st.just("leap"), st.integers(0, 2), st.integers(0, 0))
credible = st.one_of(steps, steps, waits, waits, ends, mutes, phases, stacks, saves, words, others)
acts = st.one_of(credible, leaps)


def signal(kind, now, *, node="head", rank=None, attempt=1, **data):
    named = kind.partition(".")[0] != "node"
    return Signal(
        kind=kind, received=now, at_ms=round(now * 1000), node=node, run="demo" if named else None,
        attempt=attempt if named else None, rank=rank, data=data,
    )  # fmt: skip


def story(acts):  # noqa: C901, PLR0912 - one branch per act
    """Turn acts into a list of (now, signals, rest) seconds, one sweep each."""
    now, attempt, step, mute = 1000.0, 1, 0, set()
    launch = [signal("attempt.started", now, attempt=1, nodes=NODES, world_size=3)]
    launch += [signal("rank.started", now, node=NODES[rank], rank=rank, attempt=1) for rank in range(3)]
    seconds = [(now, launch, False)]
    for word, first, second in acts:
        now += 1
        beats = [signal("node.heartbeat", now, node=name) for name in [*NODES, "head"] if name not in mute]
        sent, rest = list(beats), word == "rest"
        if word == "step":
            step += second
            sent.append(signal("rank.step", now, node="n0", rank=0, attempt=attempt, step=step, duration_ms=900))
        elif word == "end":
            data = {"exit_code": None if second > 1 else second, "signal": second if second > 1 else None}
            sent.append(signal("rank.exited", now, node=NODES[first], rank=first, attempt=attempt, **data))
        elif word == "mute":
            (mute.add if second else mute.discard)(NODES[first])
        elif word == "phase":
            sent.append(signal("rank.phase", now, node="n0", rank=0, attempt=attempt, phase=first, state=second))
        elif word == "stack":
            data = {"tool": "py-spy", "ok": second, "frames": ["all_reduce"]}
            sent.append(signal("rank.stack", now, node=NODES[first], rank=first, attempt=attempt, **data))
        elif word == "save":
            data = {"step": max(0, step - first), "state": second, "tier": "persistent"}
            sent.append(signal("checkpoint", now, node="n0", rank=0, attempt=attempt, **data))
        elif word == "word":
            sent.append(signal("rank.resume", now, node="n0", rank=0, attempt=attempt, step=max(0, step - first)))
        elif word == "leap":
            data = {"step": 50_000 + first, "duration_ms": 900}
            sent.append(signal("rank.step", now, node="n0", rank=0, attempt=attempt, **data))
        elif word == "launch":
            attempt += 1
            resume = {"step": max(0, step - 2)} if attempt % 2 else {}
            data = {"nodes": NODES, "world_size": 3, "resume": resume}
            sent.append(signal("attempt.started", now, attempt=attempt, **data))
        elif word == "finish":
            sent.append(signal("attempt.exited", now, attempt=attempt, reason="failed"))
        seconds.append((now, sent, rest))
        if word == "wait":
            seconds += [
                (
                    now + later,
                    [signal("node.heartbeat", now + later, node=n) for n in [*NODES, "head"] if n not in mute],
                    False,
                )
                for later in range(1, first)
            ]
            now += first
        if word == "gap":
            now += 45
    return seconds


def play(machine, seconds, *, restore=False, repeat=1):
    told = []
    for now, sent, rest in seconds:
        for each in sent:
            for _ in range(repeat):
                machine.observe(each, now)
        if rest:
            machine.rest(now)
        told += machine.sweep(now)
        if restore:
            machine = RunMachine.restore(json.loads(json.dumps(machine.snapshot())), POLICY)
    return told, machine


@LONG
@given(st.lists(acts, max_size=60))
def test_a_machine_restored_at_every_point_says_the_same_and_remembers_the_same(acts):
    seconds = story(acts)
    told, machine = play(RunMachine("demo", POLICY), seconds)
    again, other = play(RunMachine("demo", POLICY), seconds, restore=True)
    assert again == told
    assert other.snapshot() == machine.snapshot()


@LONG
@given(st.lists(acts, max_size=60))
def test_duplicates_change_nothing(acts):
    seconds = story(acts)
    told, machine = play(RunMachine("demo", POLICY), seconds)
    again, other = play(RunMachine("demo", POLICY), seconds, repeat=3)
    assert again == told
    assert other.snapshot() == machine.snapshot()


@LONG
@given(st.lists(acts, max_size=40), st.data())
def test_old_signals_sent_again_later_change_no_finding(acts, data):
    seconds = story(acts)
    told, _ = play(RunMachine("demo", POLICY), seconds)
    machine, heard, again = RunMachine("demo", POLICY), [], []
    for now, sent, rest in seconds:
        old = [data.draw(st.sampled_from(heard))] if heard and data.draw(st.booleans()) else []
        for each in [*sent, *(one for one in old if now - one.received <= LATENESS_S)]:
            machine.observe(each, now)
        heard += sent
        if rest:
            machine.rest(now)
        again += machine.sweep(now)
    assert again == told


@LONG
@given(st.lists(acts, max_size=40), st.randoms())
def test_the_order_of_arrival_inside_one_sweep_changes_nothing(acts, random):
    seconds = [(now, list(sent), rest) for now, sent, rest in story(acts)]
    told, _ = play(RunMachine("demo", POLICY), seconds)
    for _, sent, _rest in seconds[1:]:
        random.shuffle(sent)
    again, _ = play(RunMachine("demo", POLICY), seconds)
    assert again == told


def in_windows(seconds, length):
    """Gather what arrives in each `length` seconds before one sweep at their end."""
    for start in range(0, len(seconds), length):
        window = seconds[start : start + length]
        yield window[-1][0], [one for _, sent, _ in window for one in sent], any(rest for _, _, rest in window)


@LONG
@given(st.lists(credible, max_size=40), st.randoms())
def test_the_order_of_arrival_inside_the_usual_lateness_changes_no_verdict(acts, random):
    seconds = story(acts)
    told, _ = play(RunMachine("demo", POLICY), [seconds[0], *in_windows(seconds[1:], LATENESS_S)])
    mixed = [(now, random.sample(sent, len(sent)), rest) for now, sent, rest in in_windows(seconds[1:], LATENESS_S)]
    again, _ = play(RunMachine("demo", POLICY), [seconds[0], *mixed])
    assert verdicts(again) == verdicts(told)


def verdicts(told):
    return [(item.key, item.klass, item.stage, item.entity) for item in told if item.detector in PROGRESS]


@LONG
@given(st.lists(st.integers(1, 40), min_size=5, max_size=60), st.randoms())
def test_steps_that_arrive_out_of_order_give_the_same_baseline(order, random):
    sent = [signal("rank.step", 1000.0 + n, node="n0", rank=0, step=n, duration_ms=100 * n) for n in order]
    shuffled = random.sample(sent, len(sent))
    views = []
    for signals in (sorted(sent, key=lambda one: one.at_ms), shuffled):
        machine = RunMachine("demo", POLICY)
        machine.observe(signal("attempt.started", 1000.0, nodes=NODES, world_size=3), 1000.0)
        for each in signals:
            machine.observe(each, 1100.0)
        views.append(machine.view(1100.0))
    first, second = views
    assert (first.last_step, first.high_water_step, first.median_step_s, first.samples, first.rewinds) == (
        second.last_step,
        second.high_water_step,
        second.median_step_s,
        second.samples,
        second.rewinds,
    )


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    ["step", "duration_ms", "phase", "state", "nodes", "world_size", "exit_code", "signal", "error", "frames", "ok",
     "group", "seq", "missing", "reason", "data", "ranks", "tool", "text", "node", "resume", "labels", "last_step",
     "tokens", "loss", "grad_norm", "done", "total", "compute_ms", "wait_ms", "bytes"]
)  # fmt: skip


@LONG
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [*RUN_RULES, *NODE_RULES, "?"]
            ),
            st.dictionaries(names, junk, max_size=4),
            st.none() | st.integers(-2, 3),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_no_content_of_an_event_can_break_the_machine(events):
    machine = RunMachine("demo", POLICY)
    machine.observe(signal("attempt.started", 1000.0, nodes=NODES, world_size=3), 1000.0)
    for second, (kind, data, rank) in enumerate(events):
        now = 1001.0 + second
        machine.observe(
            Signal(
                kind=kind, received=now, at_ms=round(now * 1000), node="n0", run="demo", attempt=1, rank=rank, data=data
            ),
            now,
        )
        machine.sweep(now)
    json.dumps(machine.snapshot(), allow_nan=False)
    machine.view().as_json()


def test_steps_too_short_to_divide_by_leave_a_state_that_can_be_stored():
    machine = RunMachine("demo", POLICY)
    machine.observe(signal("attempt.started", 1000.0, nodes=NODES, world_size=3), 1000.0)
    machine.observe(
        signal("rank.step", 1001.0, node="n0", rank=0, step=1, tokens=2**62, duration_ms=5e-324, loss=1e308), 1001.0
    )
    machine.sweep(1001.0)
    json.dumps(machine.snapshot(), allow_nan=False)
    assert machine.view().tokens_per_s is None
