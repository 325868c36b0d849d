"""The state card of a run, and the strip of its attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.runs.models import Attempt, AttemptState, Run, RunState
from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number

STRIP_WIDTH = 1000.0
LETTER_WIDTH = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What stands largest on a run page."""

    headline: str
    where: str
    tone: str
    badge: Badge


def card(run: Run, attempt: Attempt | None, *, hurt: bool = False) -> Card:
    """Put a run into a sentence and a line of detail. Reads no database.

    `hurt`: a confirmed incident of the run is open.
    """
    still = stands_still(run, attempt, hurt=hurt)
    badge = badge_of(run, still=still)
    return Card(headline=headline(run, still=still), where=_where(run, attempt), tone=badge.tone, badge=badge)


def stands_still(run: Run, attempt: Attempt | None, *, hurt: bool) -> bool:
    """Whether a run that nobody has stopped makes no steps: a dead attempt is not training, whoever must act next."""
    if run.state == RunState.RECOVERING:
        return True
    return run.state == RunState.RUNNING and (hurt or (attempt is not None and attempt.state == AttemptState.EXITED))


def badge_of(run: Run, *, still: bool) -> Badge:
    """Show a run's state; one that stands still while nothing recovers it is not shown as training."""
    if still and run.state == RunState.RUNNING:
        return badges.STANDSTILL
    return badges.of(badges.RUN, run.state)


def headline(run: Run, *, still: bool = False) -> str:
    """Say how a run stands."""
    if still and run.state == RunState.RUNNING:
        return f"Run {run.name} stands still at step {number(run.high_water_step)}"
    words = {
        RunState.WAITING: "has not started yet",
        RunState.RUNNING: f"is training, step {number(run.high_water_step)}",
        RunState.RECOVERING: "is stopped and being recovered",
        RunState.STOPPED: "was stopped by a person",
        RunState.COMPLETED: f"has completed at step {number(run.high_water_step)}",
    }
    return f"Run {run.name} {words.get(RunState(run.state), run.state)}"


def _where(run: Run, attempt: Attempt | None) -> str:
    held = (
        f"Held by {run.held_by or 'an operator'}: Middlewatch says what it would do and does nothing. "
        if run.held
        else ""
    )
    if attempt is None:
        return f"{held}No attempt was launched yet."
    nodes = f"attempt {attempt.number} on {len(attempt.nodes)} nodes"
    if attempt.state == AttemptState.EXITED:
        return f"{held}{nodes.capitalize()} ended: {attempt.reason or 'no reason was reported'}."
    if attempt.last_step is None:
        return f"{held}{nodes.capitalize()} is starting, no step yet."
    return f"{held}{nodes.capitalize()}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of the attempt strip, in units of `STRIP_WIDTH`."""

    x: float
    width: float
    cause: str
    label: str
    title: str


def strip(attempts: Sequence[Attempt], begin: datetime, now: datetime, *, stalled: bool = False) -> list[Segment]:
    """Cut the time from `begin` to `now` into pieces, each with one cause: train, start or down.

    `stalled`: the newest attempt stands still, so its time since the last step is not training.
    """
    cuts: list[tuple[datetime, datetime, str, str]] = []
    for attempt, later in zip(attempts, [*attempts[1:], None], strict=True):
        end = _end(attempt, now)
        first = min(attempt.first_step_at or end, end)
        standing = attempt.exited_at is not None or (stalled and later is None)
        last = min(max(attempt.last_step_at or first, first), end) if standing else end
        after = later.started_at if later else (now if standing and attempt.reason != "completed" else end)
        cuts += [
            (attempt.started_at, first, "start", f"attempt {attempt.number} starting"),
            (first, last, "train", f"attempt {attempt.number}"),
            (last, max(after, last), "down", f"no progress after attempt {attempt.number}"),
        ]
    return _scaled(cuts, begin, now)


def _end(attempt: Attempt, now: datetime) -> datetime:
    return min(attempt.exited_at or now, now)


def _scaled(cuts: list[tuple[datetime, datetime, str, str]], begin: datetime, now: datetime) -> list[Segment]:
    whole = max(1e-6, (now - begin).total_seconds())
    pieces = []
    for start, end, cause, title in cuts:
        left, right = max(start, begin), min(end, now)
        if right <= left:
            continue
        x = (left - begin).total_seconds() / whole * STRIP_WIDTH
        width = (right - left).total_seconds() / whole * STRIP_WIDTH
        label = title if width > LETTER_WIDTH * len(title) else ""
        pieces.append(Segment(x=round(x, 2), width=round(width, 2), cause=cause, label=label, title=title))
    return pieces
