"""The detectors of a run, in the order in which they are asked.

Each is three pure functions over the one state of the run: `take` writes what a
signal says into the detector's own record, `look` gives the findings that hold, and
`due` says when a verdict could change although nothing arrives. The page of
settings, the modes and the replay know detectors only through this list.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.domain.detection import (
    deaths,
    environment,
    hardware,
    hearing,
    host,
    lag,
    launch,
    launch_intake,
    loss,
    maintenance,
    network,
    progress,
    queue,
    repeats,
    resume,
    rewinds,
    sight,
    silence,
    slow,
    stagnation,
    storage,
    upkeep,
)
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal

Take = Callable[[RunState, Signal, RunPolicy], None]
Look = Callable[[RunState, RunPolicy, float], list[Finding]]
Due = Callable[[RunState, RunPolicy, float], float | None]


def _nothing(_state: RunState, _signal: Signal, _policy: RunPolicy) -> None:
    """Take nothing in: the facts that all detectors share are enough."""


def _never(_state: RunState, _policy: RunPolicy, _now: float) -> float | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """One detector; `id` as in the requirements, `words` for the page of settings.

    `kinds` are the events that `take` wants. With `by_age` its verdicts rest on age and
    silence, so they are frozen while we cannot see; with `alone` it also rests while
    many nodes fell silent together, which is the fleet's to judge. `due` gives the
    earliest moment after `now` at which `look` could say something else without a new
    signal, None for never. `settings` are the prefixes of its fields in `RunPolicy`.
    With `waiting` it also judges a run that has no attempt yet.
    """

    id: str
    name: str
    words: str
    look: Look
    take: Take = _nothing
    kinds: frozenset[str] = frozenset()
    due: Due = _never
    by_age: bool = False
    alone: bool = False
    waiting: bool = False
    settings: tuple[str, ...] = ()


def _sight(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    return sight.look(state.sight, policy, now, run=state.run)


def _sight_due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    return sight.due(state.sight, policy, now)


def _hear(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    node = state.nodes.get(signal.node)
    if node is not None:
        hearing.take(node.hearing, signal)
    if signal.kind == "rank.step" and signal.run is not None:
        lag.take(state, signal, policy)


DETECTORS: tuple[Detector, ...] = (
    Detector(
        id="D-19",
        name="sight",
        words="No node of the run is heard: nothing is judged until somebody speaks again.",
        look=_sight,
        due=_sight_due,
        settings=("blind_", "observe_"),
    ),
    Detector(
        id="D-17",
        name="planned maintenance",
        words="While nodes of the run are in declared maintenance, age and silence mean nothing.",
        look=maintenance.look,
        take=maintenance.take_run,
        kinds=frozenset({maintenance.KIND}),
        due=maintenance.due,
        settings=("maintenance_",),
    ),
    Detector(
        id="D-19",
        name="telemetry health",
        words="Steps arrive late for minutes, a reader reads nothing, a log has a hole, a clock is off.",
        look=lag.look,
        take=_hear,
        kinds=hearing.KINDS | {"rank.step"},
        by_age=True,
        settings=("lag_",),
    ),
    Detector(
        id="D-06",
        name="GPU fault",
        words="A GPU or its machine reported a fault that condemns it, by a code, a counter or by coming again.",
        look=hardware.look,
        take=hardware.take,
        kinds=hardware.KINDS,
        due=hardware.due,
        settings=("ecc_", "testimony_"),
    ),
    Detector(
        id="D-18",
        name="storage",
        words="Probes, kernels or ranks of several nodes meet a storage that does not answer, or that is nearly full.",
        look=storage.look,
        take=storage.take,
        kinds=storage.KINDS,
        due=storage.due,
        settings=("probe_", "storage_", "room_"),
    ),
    Detector(
        id="D-22",
        name="host memory",
        words="The kernel killed a rank, or a helper that others rely on, because memory ran out.",
        look=host.look,
    ),
    Detector(
        id="D-23",
        name="network port",
        words="A port of a node stays down or flaps often, or several under one switch do.",
        look=network.look,
        due=network.due,
        settings=("flap_",),
    ),
    Detector(
        id="D-03",
        name="death of a rank",
        words="A rank ended in mid-run, or the launcher says that the attempt failed.",
        look=deaths.look,
        due=deaths.due,
        settings=("settle_", "no_exit_"),
    ),
    Detector(
        id="D-13",
        name="resume point",
        words="An attempt starts below its restore point, or anew beside a checkpoint, or never says what it loaded.",
        look=resume.look,
        take=resume.take,
        kinds=resume.KINDS,
    ),
    Detector(
        id="D-07",
        name="lost node",
        words="A node says nothing while the run stands still, or the scheduler calls it down.",
        look=silence.look,
        due=silence.due,
        by_age=True,
        settings=("heartbeat_", "silence_", "telemetry_"),
    ),
    Detector(
        id="D-01",
        name="progress stall",
        words="No step, or no progress inside a phase, within the deadline that its own speed sets.",
        look=progress.look,
        due=progress.due,
        by_age=True,
        alone=True,
        settings=("hang_", "launch_", "init_", "restore_", "first_step_", "save_", "eval_", "reload_", "idle_"),
    ),
    Detector(
        id="D-04",
        name="slow run",
        words="Steps take a few percent longer than usual for good, and perhaps one rank makes all others wait.",
        look=slow.look,
        take=slow.take,
        kinds=frozenset(slow.RULES),
        settings=("slow_",),
    ),
    Detector(
        id="D-12",
        name="numerical trouble",
        words="A loss that is no number, a spike that does not heal, a loss scale at its floor, a slow drift.",
        look=loss.look,
        take=loss.take,
        kinds=loss.KINDS,
        due=loss.due,
        settings=("loss_",),
    ),
    Detector(
        id="D-16",
        name="launch sanity",
        words="The declared parameters, batch, ranks or resume step of a launch do not add up.",
        look=launch.look,
        take=launch_intake.take,
        kinds=launch_intake.KINDS,
    ),
    Detector(
        id="D-15",
        name="environment drift",
        words="A launch differs in code, packages, drivers or hardware from the last one that trained.",
        look=environment.look,
        settings=("drift_",),
    ),
    Detector(
        id="D-02",
        name="hidden restart",
        words="The step counter goes back inside an attempt: kept on record as an interruption, never acted on.",
        look=rewinds.look,
    ),
    Detector(
        id="D-11",
        name="repeated failure",
        words="Launches fail alike, at one step, or soon after one restore, and save nothing new between.",
        look=repeats.look,
        due=repeats.due,
        settings=("fruitless_", "same_", "poison_"),
    ),
    Detector(
        id="D-09",
        name="checkpoint upkeep",
        words="The next save does not come while the run makes steps, or a save lacks files.",
        look=upkeep.look,
        take=upkeep.take,
        kinds=frozenset({"checkpoint"}),
        due=upkeep.due,
        by_age=True,
        settings=("checkpoint_",),
    ),
    Detector(
        id="D-02",
        name="no new progress",
        words="No step beyond the furthest one for hours, whatever restarts happen in between.",
        look=stagnation.look,
        take=stagnation.take,
        kinds=frozenset({"rank.step", "attempt.started"}),
        due=stagnation.due,
        by_age=True,
        settings=("stagnation_",),
    ),
    Detector(
        id="D-17",
        name="queue and capacity",
        words="A job waits under its own reservation, has no successors, or loses its machines soon.",
        look=queue.look,
        take=queue.take,
        kinds=queue.KINDS,
        due=queue.due,
        waiting=True,
        settings=("queue_",),
    ),
)
