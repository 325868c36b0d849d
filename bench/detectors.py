"""How often the detectors speak falsely, and how late they speak truly, on seeded noise.

The product's own code judges: `progress.look` for hangs, `silence` for nodes, the CUSUM chart and the
whole detector of slow runs, and `RunMachine` for thirty healthy days. It writes docs/detectors.md.

    python bench/detectors.py [--check]      (--check: write nothing)
"""

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from controlplane.domain.detection import progress, silence, slow_steps
from controlplane.domain.detection.cusum import Chart, run_length
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.detection.slow_state import SlowState
from controlplane.domain.detection.state import AttemptState, NodeState, RunState
from controlplane.domain.findings import Stage
from controlplane.domain.fleet.hunt import exclusion_plan
from controlplane.domain.signals import Signal

PAGE = Path(__file__).resolve().parent.parent / "docs" / "detectors.md"
MONTH_S = 30 * 86_400.0
POLICY = RunPolicy()
START = 1_000_000.0

BODY = 0.015
LEAST_SPIKE = 0.2
CANDIDATE = 2.5
"""Shorter steps, in usual ones, can be no alarm, so they need not be looked at one by one."""
HANG_RUNS = 40
HANG_NOISES: dict[str, tuple[float, float]] = {
    "lognormal only": (0.0, 2.0),
    "spikes, α = 2": (1e-3, 2.0),
    "spikes, α = 1.5": (1e-3, 1.5),
    "mix": (5e-3, 2.0),
}
STEP_TIMES = (2.0, 10.0, 30.0, 105.0)


def level(number: int, steps: int, *, mixed: bool) -> float:
    """Give the usual step time in units of the first: with drift and a shift of 5 % in the mix."""
    return 1 + 0.02 * number / steps + (0.05 if number > steps / 2 else 0.0) if mixed else 1.0


def usual_steps(noise: Random, number: int, steps: int, *, mixed: bool) -> list[float]:
    """Make the steps before `number`, in units of the usual time."""
    return [
        level(at, steps, mixed=mixed) * noise.lognormvariate(0, BODY) + (0.5 if mixed and at % 100 == 0 else 0.0)
        for at in range(number - POLICY.window, number)
    ]


def hangs(step_s: float, noise_name: str, seed: int) -> Counter[str]:
    """Count suspicions and confirmations by the clock in thirty days of a run that never hangs."""
    rate, alpha = HANG_NOISES[noise_name]
    noise, steps, mixed = Random(f"{step_s} {noise_name} {seed}"), int(MONTH_S / step_s), noise_name == "mix"
    attempt = AttemptState(number=1, announced=True, progress_step=1)
    state, said, number = RunState(run="bench", attempt=attempt), Counter[str](), POLICY.window
    while rate and (number := number + 1 + int(noise.expovariate(rate))) < steps:
        size = level(number, steps, mixed=mixed) + LEAST_SPIKE * noise.paretovariate(alpha)
        if size >= CANDIDATE:
            state.history = [step_s * part for part in usual_steps(noise, number, steps, mixed=mixed)]
            said += _one_step(state, START + number * step_s, size * step_s, max(1.0, step_s / 50))
    return said


def _one_step(state: RunState, began: float, took_s: float, every_s: float) -> Counter[str]:
    """Let the product watch one step until it ends, often enough to hit each deadline to a fiftieth of a usual step."""
    said, attempt = Counter[str](), state.attempt
    assert attempt is not None
    attempt.progress_at, now = began, began
    while (now := now + every_s) < began + took_s:
        for found in progress.look(state, POLICY, now):
            said[found.stage] += (found.at == now) * (found.stage is not Stage.CLEARED)
        if state.hang.stage == Stage.CONFIRMED:
            break
    attempt.progress_at = began + took_s
    progress.look(state, POLICY, began + took_s)
    return said


def hang_table() -> list[str]:
    """Make the table of methods 1."""
    lines = [
        "| noise | verdict | " + " | ".join(f"steps of {step:g} s" for step in STEP_TIMES) + " |",
        "|---|---" + "|---" * 4 + "|",
    ]
    for name in HANG_NOISES:
        counts = [sum((hangs(step, name, seed) for seed in range(HANG_RUNS)), Counter[str]()) for step in STEP_TIMES]
        for stage in (Stage.SUSPECT, Stage.CONFIRMED):
            figures = " | ".join(f"{count[stage] / HANG_RUNS:.2f}" for count in counts)
            lines.append(f"| {name} | {stage} | {figures} |")
    return lines


LOSS_NODES, LOSS_BEATS = 64, 10_000


def lost_beats(share: float, missed: int) -> tuple[float, float]:
    """Give by formula and by the product how often a node of the sample counts as silent."""
    policy = RunPolicy(silence_s=missed * POLICY.heartbeat_s)
    noise, names = Random(f"{share} {missed}"), [f"n{number}" for number in range(LOSS_NODES)]
    nodes = {name: NodeState(last_at=START) for name in names}
    state = RunState(attempt=AttemptState(number=1, nodes=names), nodes=nodes)
    before: set[str] = set()
    seen = 0
    for beat in range(1, LOSS_BEATS + 1):
        now = START + beat * policy.heartbeat_s
        for node in nodes.values():
            if noise.random() >= share:
                node.last_at = now
        silent = set(silence.silent_nodes(state, policy, now))
        seen, before = seen + len(silent - before), silent
    return LOSS_NODES * LOSS_BEATS * share**missed * (1 - share), float(seen)


def silence_table() -> list[str]:
    """Make the table of methods 2."""
    lines = [
        "| beats lost | missed in a row | 1,024 nodes for a month, by formula | sample, by formula | by the product |",
        "|---|---|---|---|---|",
    ]
    for share, missed in ((0.01, 2), (0.05, 3), (0.2, 3), (0.2, 4), (0.01, 6), (0.05, 6)):
        month = 1024 * (MONTH_S / POLICY.heartbeat_s) * share**missed * (1 - share)
        expected, seen = lost_beats(share, missed)
        lines.append(f"| {share:.0%} | {missed} | {month:.3g} | {expected:.3g} | {seen:.0f} |")
    return lines


SIGMA = 0.01
SLOW_STEPS = 24_686
SLOW_RUNS = 6
DETECTOR_RUNS = 4
CHARTS: dict[str, Chart] = {
    "k 2.5 %, h 5σ": Chart(k=0.025, h=5),
    "**k 2.5 %, h 8σ (decides)**": Chart(k=0.025, h=8),
    "k 2.5 %, h 10σ": Chart(k=0.025, h=10),
    "k 1.25 %, h 10σ (told only)": Chart(k=0.0125, h=10),
}
T3_ROBUST = 1.134
"""1.4826 times the median distance of Student's t with three degrees of freedom."""


def normal(noise: Random) -> Iterator[float]:
    """Normal noise."""
    while True:
        yield noise.gauss(0, SIGMA)


def student(noise: Random) -> Iterator[float]:
    """Student's t with three degrees of freedom, of the same robust scatter."""
    while True:
        spread = math.sqrt(sum(noise.gauss(0, 1) ** 2 for _ in range(3)) / 3)
        yield noise.gauss(0, 1) / spread * SIGMA / T3_ROBUST


def spikes(noise: Random) -> Iterator[float]:
    """Normal noise, and one step in a hundred late by a heavy tail."""
    while True:
        late = LEAST_SPIKE * noise.paretovariate(1.5) if noise.random() < 0.01 else 0.0
        yield noise.gauss(0, SIGMA) + late


def waves(noise: Random) -> Iterator[float]:
    """Noise that comes and goes: autoregressive, 0.9 from step to step."""
    now, own = 0.0, SIGMA * math.sqrt(1 - 0.9**2)
    while True:
        now = 0.9 * now + noise.gauss(0, own)
        yield now


SLOW_NOISES: dict[str, Callable[[Random], Iterator[float]]] = {
    "normal": normal, "t3": student, "1 % spikes": spikes, "waves (AR 0.9)": waves,
}  # fmt: skip


def false_alarms(chart: Chart, noise_name: str) -> float:
    """Give the false alarms of a chart in thirty days of 105 s steps; an alarm starts it anew."""
    alarms = 0
    for seed in range(SLOW_RUNS):
        noise, total = SLOW_NOISES[noise_name](Random(f"{noise_name} {seed}")), 0.0
        for _ in range(SLOW_STEPS):
            total = chart.add(total, next(noise), SIGMA)
            if chart.speaks(total, SIGMA):
                alarms, total = alarms + 1, 0.0
    return alarms / SLOW_RUNS


def delays(chart: Chart, drop: float) -> tuple[float, int]:
    """Give the mean and the 95th percentile of the steps until a drop is found."""
    noise, seen = normal(Random(f"delay {drop}")), []
    for _ in range(400):
        total, steps = 0.0, 0
        for _ in range(50):
            total = chart.add(total, next(noise), SIGMA)
        while not chart.speaks(total, SIGMA) and steps < 1000:
            total, steps = chart.add(total, drop + next(noise), SIGMA), steps + 1
        seen.append(steps)
    return fmean(seen), sorted(seen)[int(0.95 * len(seen))]


def chart_table() -> list[str]:
    """Make the table of methods 3."""
    names = list(SLOW_NOISES)
    lines = [
        "| chart | steps to a 5 % drop, mean (p95) | to 2.5 % | " + " | ".join(names) + " |",
        "|---|---|---" + "|---" * len(names) + "|",
    ]
    for name, chart in CHARTS.items():
        five, half = delays(chart, 0.05), delays(chart, 0.025)
        slow = f"{half[0]:.1f} ({half[1]})" if chart.k < 0.025 else "–"
        figures = " | ".join(f"{false_alarms(chart, noise):.1f}" for noise in names)
        lines.append(f"| {name} | {five[0]:.1f} ({five[1]}) | {slow} | {figures} |")
    return lines


def slow_month(noise_name: str, seed: int) -> Counter[str]:
    """Count what the whole detector of slow runs says in thirty healthy days."""
    attempt, record, said = AttemptState(number=1, first_step=1), SlowState(), Counter[str]()
    noise, now, told = SLOW_NOISES[noise_name](Random(f"{noise_name} {seed}")), START, ("", False)
    for step in range(1, SLOW_STEPS + 1):
        took_s = 105 * (1 + max(-0.5, next(noise)))
        now += took_s
        data = {"step": step, "duration_ms": took_s * 1000}
        signal = Signal(kind="rank.step", received=now, at_ms=round(now * 1000), node="n0", rank=0, data=data)
        slow_steps.take(record, attempt, signal, POLICY)
        alarm = record.attempt.alarms[-1] if record.attempt.alarms else None
        if alarm is not None and (alarm.stage, alarm.notice) != told:
            told = (alarm.stage, alarm.notice)
            word = "notice" if alarm.notice else alarm.stage
            said[word] += alarm.stage in {Stage.SUSPECT, Stage.CONFIRMED}
    return said


def detector_table() -> list[str]:
    """Make the table of the detector as it is used."""
    lines = ["| noise | told only | suspected, then cleared | confirmed |", "|---|---|---|---|"]
    for name in SLOW_NOISES:
        said = sum((slow_month(name, seed) for seed in range(DETECTOR_RUNS)), Counter[str]())
        figures = " | ".join(f"{said[word] / DETECTOR_RUNS:.1f}" for word in ("notice", "suspect", "confirmed"))
        lines.append(f"| {name} | {figures} |")
    return lines


BEAT_S = 25.0
SAVE_EVERY = 100


class Month:
    """A healthy run of thirty days in front of the whole machine: spikes, saves, heartbeats."""

    def __init__(self, step_s: float) -> None:
        """Begin at the launch."""
        self.machine, self.step_s, self.now, self.said = RunMachine("bench", POLICY), step_s, START, Counter[str]()
        self.noise = Random(f"month {step_s}")
        self.due: float | None = None
        self._send("attempt.started", nodes=["n0"], world_size=1)
        self._send("rank.started", rank=0)

    def _send(self, kind: str, rank: int | None = None, **data: object) -> None:
        signal = Signal(
            kind=kind, received=self.now, at_ms=round(self.now * 1000), node="n0",
            run=None if kind == "node.heartbeat" else "bench", attempt=1, rank=rank, data=data,
        )  # fmt: skip
        self.machine.observe(signal, self.now)

    def _wait(self, seconds: float) -> None:
        """Let the clock run under heartbeats; sweep when the machine says that something is due."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + BEAT_S)
            self._send("node.heartbeat")
            self.machine.awake(self.now)
            if self.due is not None and self.due <= self.now:
                self._sweep()

    def _sweep(self) -> None:
        self.machine.awake(self.now)
        for item in self.machine.sweep(self.now):
            self.said[f"{item.klass} {item.stage}"] += 1
        self.due = self.machine.due(self.now)

    def go(self) -> Counter[str]:
        """Live through the month; give what was said, by class and stage."""
        for step in range(1, int(MONTH_S / self.step_s) + 1):
            late = LEAST_SPIKE * self.noise.paretovariate(2.0) if self.noise.random() < 1e-3 else 0.0
            took_s = self.step_s * (self.noise.lognormvariate(0, BODY) + late)
            self._wait(took_s)
            self._send("rank.step", rank=0, step=step, duration_ms=took_s * 1000, loss=2.0, grad_norm=0.3)
            self._sweep()
            if step % SAVE_EVERY == 0:
                self._send("rank.phase", rank=0, phase="save", state="begin")
                self._wait(40.0)
                self._send("rank.phase", rank=0, phase="save", state="end")
        return self.said


def month_words() -> list[str]:
    """Say what the machine said in a healthy month."""
    said = Month(105.0).go()
    told = ", ".join(f"{words} {count}" for words, count in sorted(said.items())) or "nothing at all"
    return [f"Findings in the month: {told}."]


def hunt_table() -> list[str]:
    """Make the table of the search by exclusion."""
    lines = ["| nodes | 3 spares | 4 | 8 | 18 | half |", "|---|---|---|---|---|---|"]
    for nodes in (48, 128, 1024):
        plans = [exclusion_plan(nodes, spares) for spares in (3, 4, 8, 18, nodes // 2)]
        lines.append(f"| {nodes} | " + " | ".join(f"{plan.expected:.2f} ({plan.worst})" for plan in plans) + " |")
    return lines


SECTIONS: tuple[tuple[str, str, Callable[[], list[str]]], ...] = (
    (
        "Hang: verdicts in 30 days of a run that never hangs",
        f"""`progress.look` with its learned factor `k`, {HANG_RUNS} months each. The body is lognormal with 1.5 %;
a spike adds 0.2 usual steps times a Pareto variable at one step in a thousand; the mix has one in two hundred, a
drift, a shift of 5 % and an undeclared longer step every hundred. A suspicion has no side effect; only a confirmation
acts.""",
        hang_table,
    ),
    (
        "Silence: nodes that count as silent although they live",
        f"""Heartbeats every {POLICY.heartbeat_s:g} s are lost independently; the sample is {LOSS_NODES} nodes and
{LOSS_BEATS:,} beats. The default needs {POLICY.silence_s / POLICY.heartbeat_s:.0f} in a row, and even then only a run
that stands still leads to an act.""",
        silence_table,
    ),
    (
        "Slow run: the chart",
        f"""False alarms in 30 days of 105 s steps ({SLOW_STEPS:,} steps, σ 1 %, {SLOW_RUNS} months each), and the delay
over 400 drops. One step adds at most max(4σ, k + 1.5σ). By Siegmund's formula normal noise gives a false alarm every
{run_length(0.5, 4):.0f} steps at k 0.5σ, h 4σ, and every {run_length(0.5, 5):.0f} at h 5σ (tables: 336 and 930).""",
        chart_table,
    ),
    (
        "Slow run: the detector",
        f"""The same months through the whole detector, which learns the usual time and its scatter by itself
({DETECTOR_RUNS} months each). What the small chart says is told only when it lasts, and never acted on.""",
        detector_table,
    ),
    (
        "A healthy month through the whole machine",
        """Steps of 105 s with spikes (α = 2, one in a thousand), a save of 40 s every hundred steps, swept when a step
has come or something is due. A suspicion that clears is free of side effects; a confirmation would have acted.""",
        month_words,
    ),
    (
        "Search by exclusion: expected starts (worst case)",
        """One slow node, and nothing but the step time to tell which (`domain/fleet/hunt.py`).""",
        hunt_table,
    ),
)

HEAD = """# What the detectors cost in false alarms and in time

Written by `bench/detectors.py` with fixed seeds; the product's own code gives every verdict. The noise is synthetic, so
compare rules with it and not machines."""


def page() -> str:
    """Make the page."""
    parts = [HEAD]
    for title, words, table in SECTIONS:
        began = time.process_time()
        parts += [f"## {title}", words, "\n".join(table())]
        print(f"{time.process_time() - began:5.0f} s of CPU: {title}", file=sys.stderr)
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, then write the page or print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = page()
    print(text)
    if not check:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
