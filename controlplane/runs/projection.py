"""Project what agents report onto runs and attempts.

Only the head node may speak of attempts, of a scheduler and of capacity, and only the nodes of an attempt may
speak of its ranks: a token speaks for its node, not for the run of another.
Steps are folded before they are written, so a chunk of a thousand costs one row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Q

from controlplane.domain.chronicle import sentences
from controlplane.domain.chronicle.words import count
from controlplane.domain.detection.leaps import FREE_STEPS
from controlplane.domain.signals import Signal
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run, RunState
from controlplane.runs.times import moment

MAX_NUMBER = 2**31 - 1
MAX_STEP = 2**62
MAX_NODES = 10_000
MAX_SUPPORTS = 32
MAX_SUPPORT = 40
REASONS = frozenset({"completed", "failed", "killed", "node_fail", "timeout", "preempted"})
OF_LAUNCHERS = ("attempt.", "scheduler.", "capacity.")
"""Kinds in which a launcher speaks of more than its own node."""


def members(run: Run, attempts: Iterable[Attempt], signals: Iterable[Signal]) -> dict[int, list[str]]:
    """Map each attempt to its nodes: those known, and those that the head node announces among `signals`.

    Of one that has not started yet the announcement knows better: a successor may have forestalled it.
    """
    nodes = {
        signal.attempt: _named(signal)
        for signal in signals
        if signal.kind == "attempt.started" and signal.node == run.launcher and signal.attempt is not None
    }
    known = [item for item in attempts if item.state != AttemptState.STARTING or not nodes.get(item.number)]
    return nodes | {attempt.number: attempt.nodes for attempt in known}


def spoken_for(run: Run, nodes: Mapping[int, Sequence[str]], signal: Signal) -> bool:
    """Tell whether the sender may say this about the run (wire.md: a token speaks only for its node).

    `nodes` are the `members` of the run's attempts.
    """
    if signal.node == run.launcher:
        return True
    if signal.kind.startswith(OF_LAUNCHERS):
        return False
    if signal.run is None:
        return True
    if signal.run != run.name:
        return False
    if signal.attempt is None:
        return any(signal.node in names for names in nodes.values())
    return signal.node in nodes.get(signal.attempt, [])


def apply(run: Run, signals: Sequence[Signal], book: Book, *, believed: int | None = None) -> None:
    """Write what `signals` say about the run's attempts and steps; sentences go to `book`.

    `believed` is the furthest step that the run's reducer believes, None where nobody
    judged: a step number far beyond it is not written, or it would hide all that follow.
    Part of the caller's transaction; applying the same signals twice changes nothing.
    """
    steps: dict[int, list[Signal]] = {}
    for signal in signals:
        if signal.run != run.name or not _numbered(signal.attempt):
            continue
        if signal.kind == "rank.step" and _credible(whole(signal.data.get("step")), believed):
            steps.setdefault(signal.attempt or 0, []).append(signal)
        elif signal.kind == "attempt.started":
            _started(run, signal, book)
        elif signal.kind == "attempt.exited":
            _flush(run, steps)
            _exited(run, signal, book)
    if _flush(run, steps):
        live.touch(f"run:{run.name}", urgent=False)
        live.touch("fleet", urgent=False)


def _credible(step: int | None, believed: int | None) -> bool:
    return step is not None and (believed is None or step <= believed + FREE_STEPS)


def whole(value: Any) -> int | None:
    """Return a step number that came from outside, or None when it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_STEP:
        return value
    return None


def _numbered(attempt: int | None) -> bool:
    return attempt is not None and 1 <= attempt <= MAX_NUMBER


def _started(run: Run, signal: Signal, book: Book) -> None:
    attempt = _known(run, signal)
    data, ranks = signal.data, min(whole(signal.data.get("world_size")) or 0, MAX_NUMBER)
    starting = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.STARTING)
    if not starting.update(
        state=AttemptState.RUNNING, world_size=ranks,
        scheduler=str(data.get("scheduler", "local"))[:16], job_id=str(data.get("job_id", ""))[:100],
        supports=_supports(signal), **_place(attempt, signal),
    ):  # fmt: skip
        return
    Run.objects.filter(pk=run.pk, state=RunState.WAITING).update(state=RunState.RUNNING)
    run.refresh_from_db()
    told = f"Attempt {attempt.number} started with {count(ranks, 'rank')}."
    _tell(run, book, signal, ("launch", "started", told))


def _place(attempt: Attempt, signal: Signal) -> dict[str, Any]:
    """Give nodes and first step as the launcher says: a successor may have begun elsewhere than was asked for."""
    nodes, step = _named(signal) or attempt.nodes, _resume_step(signal)
    if step is None or step == attempt.resume_step:
        return {"nodes": nodes}
    return {"nodes": nodes, "resume_step": step, "resume_path": str(signal.data["resume"].get("path") or "")}


def _resume_step(signal: Signal) -> int | None:
    resume = signal.data.get("resume")
    return whole(resume.get("step")) if isinstance(resume, dict) else None


def _known(run: Run, signal: Signal) -> Attempt:
    """Return the attempt that the signal names, made when somebody else launched it."""
    attempt, _ = Attempt.objects.get_or_create(
        run=run, number=signal.attempt or 0,
        defaults={
            "nodes": _named(signal),
            "resume_step": _resume_step(signal) or 0,
            "started_at": moment(signal.received), "high_water_before": run.high_water_step, "unasked": True,
        },
    )  # fmt: skip
    return attempt


def _named(signal: Signal) -> list[str]:
    named = signal.data.get("nodes")
    return [str(node)[:100] for node in named[:MAX_NODES]] if isinstance(named, list) else []


def _supports(signal: Signal) -> list[str]:
    told = signal.data.get("supports")
    return [str(one)[:MAX_SUPPORT] for one in told[:MAX_SUPPORTS]] if isinstance(told, list) else []


def _exited(run: Run, signal: Signal, book: Book) -> None:
    attempt = Attempt.objects.filter(run=run, number=signal.attempt or 0).exclude(state=AttemptState.EXITED).first()
    if attempt is None:
        return
    said = str(signal.data.get("reason", "failed"))
    reason = said if said in REASONS else "failed"
    if attempt.stopping_at is not None and reason != "completed":
        reason = "killed"
    code = signal.data.get("exit_code")
    Attempt.objects.filter(pk=attempt.pk).update(
        state=AttemptState.EXITED, exited_at=moment(signal.received), reason=reason,
        exit_code=code if isinstance(code, int) and abs(code) <= MAX_NUMBER else None,
    )  # fmt: skip
    if reason == "completed":
        _completed(run, attempt, signal, book)
    else:
        told = sentences.attempt_ended(attempt.number, reason, attempt.last_step)
        _tell(run, book, signal, ("exit", "exited", told))


def _completed(run: Run, attempt: Attempt, signal: Signal, book: Book) -> None:
    """Finished is finished (methods 11.7): nothing restarts this run by itself any more."""
    newer = Attempt.objects.filter(run=run, number__gt=attempt.number).exists()
    if not newer and Run.objects.filter(pk=run.pk).exclude(state=RunState.COMPLETED).update(state=RunState.COMPLETED):
        run.state = RunState.COMPLETED
        run.refresh_from_db()
    told = sentences.completed(run.name, run.high_water_step)
    _tell(run, book, signal, ("resolved", "exited", told))


def _tell(run: Run, book: Book, signal: Signal, news: tuple[str, str, str]) -> None:
    """Tell the run's chronicle some news (kind, what happened, sentence), once for each attempt."""
    kind, what, sentence = news
    book.tell(
        f"run:{run.name}", kind, sentence, key=f"attempt:{run.pk}:{signal.attempt}:{what}",
        at=moment(signal.received), actor_kind="agent", actor=signal.node,
    )  # fmt: skip
    live.touch(f"run:{run.name}")
    live.touch("fleet", urgent=False)


def _flush(run: Run, steps: dict[int, list[Signal]]) -> bool:
    """Write the folded steps of each attempt; tell whether there were any."""
    moved = False
    for number, signals in steps.items():
        moved |= _advance(run, number, signals)
    steps.clear()
    return moved


def _advance(run: Run, number: int, signals: list[Signal]) -> bool:
    """Move an attempt and the run to the furthest of these steps."""
    attempt = Attempt.objects.filter(run=run, number=number).first()
    if attempt is None:
        return False
    _first_marks(attempt, signals)
    best = max(signals, key=lambda signal: (signal.data["step"], -signal.received))
    step, at = best.data["step"], moment(best.received)
    ahead = Q(last_step=None) | Q(last_step__lt=step)
    Attempt.objects.filter(ahead, pk=attempt.pk).update(last_step=step, last_step_at=at)
    if Run.objects.filter(pk=run.pk, high_water_step__lt=step).update(high_water_step=step, high_water_at=at):
        run.high_water_step, run.high_water_at = step, at
    return True


def _first_marks(attempt: Attempt, signals: list[Signal]) -> None:
    """Note when the attempt made its first step, and its first one beyond all before it."""
    mine = Attempt.objects.filter(pk=attempt.pk)
    if attempt.first_step_at is None:
        mine.filter(first_step_at=None).update(first_step_at=moment(signals[0].received))
    if attempt.beyond_at is None:
        beyond = (signal for signal in signals if signal.data["step"] > attempt.high_water_before)
        if first := next(beyond, None):
            mine.filter(beyond_at=None).update(beyond_at=moment(first.received))
