"""What people and runbooks do to runs and attempts; the only writer of their tables.

Every change of state is a compare-and-set. What agents report is projected by
`projection`; the reducers' rows are kept by `machines`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from controlplane.domain.chronicle import sentences
from controlplane.domain.chronicle.words import count
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.fleet import actions as fleet
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.calling_back import call_back
from controlplane.runs.cancelled import note_cancelled
from controlplane.runs.machines import lease_machine, release_machine, save_machine
from controlplane.runs.models import Attempt, AttemptState, Mode, Run, RunState
from controlplane.runs.projection import apply
from controlplane.runs.queueing import settle_queue

__all__ = [
    "Resume", "apply", "close_attempt", "create_run", "hold", "lease_machine", "mark_stopping", "note_cancelled",
    "open_attempt", "release_machine", "resume", "save_machine", "send_stop", "set_mode", "set_policy", "set_state",
    "stop",
]  # fmt: skip

MAX_NODES = 10_000
MAX_CHANGES = 8
"""Changed settings that the chronicle names; the rest is counted."""
MAX_GPUS_PER_NODE = 64
STOP_GRACE_S = 2.0
STOP_DEADLINE = timedelta(days=1)
STOPPED = "stop"
"""In the data of the chronicle's entry, `did`: a recording finds it there."""
"""A stop names one attempt and stays right, so it waits for a launcher that is away."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an attempt begins: a restore point, or step 0 for the beginning."""

    step: int = 0
    path: str = ""


def create_run(
    name: str,
    *,
    launcher: str,
    nodes_wanted: int,
    now: datetime,
    by: str = "",
    gpus_per_node: int = 1,
    mode: str = Mode.AUTOPILOT,
    policy: Mapping[str, Any] | None = None,
) -> Run:
    """Create a run that waits for its first launch.

    `launcher` names the head node whose agent launches; `policy` overrides fields of
    `domain.detection.policy.RunPolicy`.

    Raises:
        Invalid: a field makes no sense; names it.
        Conflict: a run of that name exists.
    """
    _check(name, launcher, nodes_wanted, gpus_per_node, mode)
    RunPolicy.from_overrides(policy or {})
    try:
        with transaction.atomic():
            run = Run.objects.create(
                name=name, launcher=launcher, nodes_wanted=nodes_wanted, gpus_per_node=gpus_per_node,
                mode=mode, policy=dict(policy or {}), created_at=now,
            )  # fmt: skip
            _say(run, "note", f"Run {name} was created for {count(nodes_wanted, 'node')}.", by, now)
    except IntegrityError as error:
        raise Conflict(f"a run named {name} exists") from error
    return run


def _check(name: str, launcher: str, nodes_wanted: int, gpus_per_node: int, mode: str) -> None:
    if not _NAME.match(name):
        raise Invalid("name", "must be 1 to 80 letters, digits, dots, dashes or underscores")
    if not _NAME.match(launcher):
        raise Invalid("launcher", "must be the name of a head node")
    if not 1 <= nodes_wanted <= MAX_NODES:
        raise Invalid("nodes_wanted", f"must be between 1 and {MAX_NODES}")
    if not 0 <= gpus_per_node <= MAX_GPUS_PER_NODE:
        raise Invalid("gpus_per_node", f"must be between 0 and {MAX_GPUS_PER_NODE}")
    _check_mode(mode)


def _check_mode(mode: str) -> None:
    if mode not in Mode.values:
        raise Invalid("mode", f"must be one of {', '.join(Mode.values)}")


def set_mode(run: Run, mode: str, by: str, now: datetime) -> None:
    """Switch a run between watch, ask and autopilot."""
    _check_mode(mode)
    with transaction.atomic():
        if Run.objects.filter(pk=run.pk).exclude(mode=mode).update(mode=mode):
            _say(run, "note", f"{by} set the run to {mode}.", by, now)
    run.mode = mode


def set_policy(run: Run, overrides: Mapping[str, Any], by: str, now: datetime) -> None:
    """Replace the overrides of a run's policy; `Invalid` names a wrong field."""
    RunPolicy.from_overrides(overrides)
    with transaction.atomic():
        before = Run.objects.select_for_update(no_key=True).get(pk=run.pk).policy
        Run.objects.filter(pk=run.pk).update(policy=dict(overrides))
        _say(run, "note", f"{by} changed the run's settings: {_changes(before, overrides)}.", by, now)
    run.policy = dict(overrides)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Name each setting that differs, with both values; the first MAX_CHANGES of them."""
    old, new = _flat(before), _flat(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    told = [f"{name} from {old.get(name, 'default')} to {new.get(name, 'default')}" for name in names[:MAX_CHANGES]]
    return ", ".join(told) + (f" and {len(names) - MAX_CHANGES} more" if len(names) > MAX_CHANGES else "") or "nothing"


def _flat(policy: Mapping[str, Any]) -> dict[str, Any]:
    modes = {f"mode of {rule}": mode for rule, mode in dict(policy.get("modes", {})).items()}
    return {**{name: value for name, value in policy.items() if name != "modes"}, **modes}


def hold(run: Run, by: str, now: datetime) -> None:
    """Forbid automation to touch the run until `resume`; training itself goes on, and no job behind it begins.

    Commands of automation that no agent has taken up yet are called back.

    Raises:
        Conflict: the run is held already.
    """
    with transaction.atomic():
        if not Run.objects.filter(pk=run.pk, held=False).update(held=True, held_by=by):
            raise Conflict(f"{run.name} is held already")
        settle_queue(run, now)
        call_back(run, now)
        _say(run, "hold", sentences.held(run.name, by), by, now)
    run.held, run.held_by = True, by


def resume(run: Run, by: str, now: datetime) -> None:
    """Lift an operator's hold; waiting executions go on.

    Raises:
        Conflict: the run is not held.
    """
    with transaction.atomic():
        if not Run.objects.filter(pk=run.pk, held=True).update(held=False, held_by=""):
            raise Conflict(f"{run.name} is not held")
        settle_queue(run, now)
        _say(run, "resume", sentences.resumed(run.name, by), by, now)
    run.held, run.held_by = False, ""


def stop(run: Run, by: str, now: datetime) -> None:
    """Stop a run for good: its attempt is told to end and automation starts nothing more.

    Raises:
        Conflict: the run is stopped or completed already.
    """
    with transaction.atomic():
        going = Run.objects.filter(pk=run.pk).exclude(state__in=[RunState.STOPPED, RunState.COMPLETED])
        if not going.update(state=RunState.STOPPED):
            raise Conflict(f"{run.name} is not running")
        call_back(run, now)
        for attempt in run.attempts.exclude(state=AttemptState.EXITED):
            mark_stopping(attempt, now)
            send_stop(run, attempt, now)
        _say(run, "action", f"{by} stopped the run.", by, now, did=STOPPED)
    run.state = RunState.STOPPED


def send_stop(run: Run, attempt: Attempt, now: datetime) -> None:
    """Have the launcher end what may be left of an attempt, once for each attempt."""
    args = {"run": run.name, "attempt": attempt.number, "grace_s": STOP_GRACE_S}
    key = f"stop:{run.pk}:{attempt.number}"
    fleet.send_command(run.launcher, "attempt.stop", args, key=key, deadline=now + STOP_DEADLINE, now=now)


def open_attempt(run: Run, nodes: Sequence[str], resume: Resume, now: datetime) -> Attempt:
    """Open the next attempt on `nodes`; the caller sends the command that starts it.

    Raises:
        Conflict: an attempt is still alive.
    """
    with transaction.atomic():
        locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        alive = locked.attempts.exclude(state=AttemptState.EXITED).first()
        if alive is not None:
            raise Conflict(f"attempt {alive.number} of {run.name} is still alive")
        newest = locked.attempts.aggregate(newest=Max("number"))["newest"] or 0
        attempt = Attempt.objects.create(
            run=locked, number=newest + 1, nodes=list(nodes), world_size=0,
            resume_step=resume.step, resume_path=resume.path, started_at=now,
            high_water_before=locked.high_water_step,
        )  # fmt: skip
    live.touch(f"run:{run.name}")
    return attempt


def mark_stopping(attempt: Attempt, now: datetime) -> bool:
    """Say that we end this attempt, so that its end is no fault; False when that was said or it has ended."""
    alive = Attempt.objects.filter(pk=attempt.pk, stopping_at=None).exclude(state=AttemptState.EXITED)
    marked = bool(alive.update(stopping_at=now))
    if marked:
        attempt.stopping_at = now
    return marked


def close_attempt(attempt: Attempt, reason: str, now: datetime) -> bool:
    """Record the end of an attempt that the launcher has proved; False when it had ended before."""
    alive = Attempt.objects.filter(pk=attempt.pk).exclude(state=AttemptState.EXITED)
    closed = bool(alive.update(state=AttemptState.EXITED, exited_at=now, reason=reason))
    if closed:
        attempt.state, attempt.exited_at, attempt.reason = AttemptState.EXITED, now, reason
    return closed


def set_state(run: Run, *, expected: Sequence[str], to: str) -> bool:
    """Move a run between states by compare-and-set; False when it was in none of the `expected` ones."""
    moved = bool(Run.objects.filter(pk=run.pk, state__in=expected).update(state=to))
    if moved:
        run.state = to
        live.touch(f"run:{run.name}")
        live.touch("fleet", urgent=False)
    return moved


def launchable(run: Run) -> None:
    """Refuse a launch while a hold or a living attempt stands against it."""
    if run.held:
        raise Refused(f"{run.name} is held by {run.held_by}")
    if run.attempts.exclude(state=AttemptState.EXITED).exists():
        raise Conflict(f"{run.name} has a living attempt")


def _say(run: Run, kind: str, sentence: str, by: str, now: datetime, *, did: str = "") -> None:
    book = Book(now, "person" if by else "system", by)
    book.tell(f"run:{run.name}", kind, sentence, data={"did": did} if did else {})
    book.write()
    live.touch(f"run:{run.name}")
    live.touch("fleet", urgent=False)
