"""Read runs, their attempts and the views of their reducers."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.domain.detection import unrecognised as kinds
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import SNAPSHOT_VERSION, RunMachine
from controlplane.domain.detection.unrecognised import Unrecognised
from controlplane.domain.detection.view import RunView
from controlplane.domain.errors import NotFound
from controlplane.runs.machines import FLEET, machine_name
from controlplane.runs.models import Attempt, AttemptState, Machine, Run, RunState

FINAL = (RunState.STOPPED, RunState.COMPLETED)


def run_named(name: str) -> Run:
    """Return the run called `name`; `NotFound` when there is none."""
    run = Run.objects.filter(name=name).first()
    if run is None:
        raise NotFound(f"no run is named {name}")
    return run


def policy(run: Run) -> RunPolicy:
    """Return the run's policy: the defaults with its overrides."""
    return RunPolicy.from_overrides(run.policy)


def newest_attempt(run: Run) -> Attempt | None:
    """Return the attempt with the highest number."""
    return Attempt.objects.filter(run=run).order_by("-number").first()


def awake() -> QuerySet[Run]:
    """Return the runs that somebody must look at; finished ones whose attempt has ended cost nothing."""
    living = Attempt.objects.filter(run=OuterRef("pk")).exclude(state=AttemptState.EXITED)
    return Run.objects.filter(~Q(state__in=FINAL) | Exists(living)).order_by("pk")


_lent: dict[int, RunMachine] = {}


def lend(run: Run, reducer: RunMachine) -> None:
    """Let `view` ask this reducer instead of the table; only where one process sweeps every run (a replay)."""
    _lent[run.pk] = reducer


def view(run: Run) -> RunView | None:
    """Return what the reducer knows of the run at its last sweep, or None before the first one."""
    if run.pk in _lent:
        return _lent[run.pk].view()
    machine = Machine.objects.filter(run=run).first()
    if machine is None or not machine.snapshot:
        return None
    return RunMachine.restore(machine.snapshot, policy(run), run.name).view()


def unrecognised(run: Run | None, node: str = "") -> list[Unrecognised]:
    """Return what no signature knows and looks like trouble, said by the run's nodes (None: by any), newest first.

    With `node` only the kinds that came from there, as far as their nodes are remembered.
    """
    name = FLEET if run is None else machine_name(run)
    rows = Machine.objects.filter(name=name, snapshot__version=SNAPSHOT_VERSION)
    held = rows.values_list("__".join(("snapshot", *kinds.PATH)), flat=True).first()
    return kinds.of_snapshot(held, node) if held else []
