"""The state card of a run."""

from dataclasses import dataclass

from controlplane.runs.models import Attempt, AttemptState, Run, RunState
from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What stands largest on a run page."""

    headline: str
    where: str
    tone: str
    badge: Badge


def card(run: Run, attempt: Attempt | None, *, hurt: bool = False, unseen: bool = False) -> Card:
    """Put a run into a sentence and a line of detail. Reads no database.

    `hurt`: a confirmed incident of the run is open; `unseen`: no node of the run is heard.
    """
    still = stands_still(run, attempt, hurt=hurt)
    badge = badge_of(run, still=still, unseen=unseen)
    return Card(
        headline=headline(run, still=still, repeats=repeats(run, attempt), unseen=unseen),
        where=_where(run, attempt),
        tone=badge.tone,
        badge=badge,
    )


def stands_still(run: Run, attempt: Attempt | None, *, hurt: bool) -> bool:
    """Whether a run that nobody has stopped makes no steps: a dead attempt is not training, whoever must act next."""
    if run.state == RunState.RECOVERING:
        return True
    return run.state == RunState.RUNNING and (hurt or (attempt is not None and attempt.state == AttemptState.EXITED))


def repeats(run: Run, attempt: Attempt | None) -> bool:
    """Whether a recovering run has steps again, though none beyond those it had before."""
    return (
        run.state == RunState.RECOVERING
        and attempt is not None
        and attempt.state == AttemptState.RUNNING
        and attempt.last_step is not None
        and attempt.last_step < run.high_water_step
    )


def badge_of(run: Run, *, still: bool, unseen: bool = False) -> Badge:
    """Show a run's state; one that stands still while nothing recovers it, or is not seen, is not shown as training."""
    if run.state == RunState.RUNNING and (still or unseen):
        return badges.STANDSTILL if still else badges.UNSEEN
    return badges.of(badges.RUN, run.state)


def headline(run: Run, *, still: bool = False, repeats: bool = False, unseen: bool = False) -> str:
    """Say how a run stands."""
    if still and run.state == RunState.RUNNING:
        return f"Run {run.name} stands still at step {number(run.high_water_step)}"
    if unseen and run.state == RunState.RUNNING:
        return f"Run {run.name} was training when it was last heard, at step {number(run.high_water_step)}"
    words = {
        RunState.WAITING: "has not started yet",
        RunState.RUNNING: f"is training, step {number(run.high_water_step)}",
        RunState.RECOVERING: "is being recovered" if repeats else "is stopped and being recovered",
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
    nodes = f"attempt {attempt.number} on {plural(len(attempt.nodes), 'node')}"
    if attempt.state == AttemptState.EXITED:
        return f"{held}{nodes.capitalize()} ended: {attempt.reason or 'no reason was reported'}."
    if attempt.last_step is None:
        return f"{held}{nodes.capitalize()} is starting, no step yet."
    if repeats(run, attempt):
        step, before = number(attempt.last_step), number(run.high_water_step)
        return f"{held}{nodes.capitalize()} is at step {step}; step {before} was reached before."
    return f"{held}{nodes.capitalize()}."
