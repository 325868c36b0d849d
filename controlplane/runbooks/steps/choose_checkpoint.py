"""Choose the newest complete checkpoint by looking at the disk, not by belief.

The launcher looks, the ledger learns, the domain chooses. If the launcher cannot
look, the ledger alone decides and the sentence says so. A run that has saved
before is never begun from the start by automation.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.checkpoints import actions as checkpoints
from controlplane.checkpoints import queries as ledger
from controlplane.domain.checkpoints.restore import RestoreChoice
from controlplane.runbooks import gate, points
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps import early_scan
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn

POLL_S = 5.0


class ChooseCheckpoint(Step):
    """Scan, record, choose."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the launcher what lies on the disk, unless it was asked a moment ago."""
        if early_scan.usable(turn) is None or turn.tried.try_number > 1:
            early_scan.ask(turn)
        return {"newest": early_scan.NEWEST}

    def preview(self, turn: Turn) -> str | None:
        """Name the checkpoint that the ledger would choose now."""
        choice = points.restore_point(turn.run)
        turn.context["restore_step"] = choice.step
        if not choice.step:
            return "look at the disk for a complete checkpoint; the ledger knows none"
        lost = f", which repeats {choice.lost_steps} steps" if choice.lost_steps else ""
        return f"go back to the checkpoint of step {choice.step}{lost}, unless the disk holds a newer one"

    def look(self, turn: Turn) -> Outcome:
        """Choose once the launcher has looked."""
        command = next(iter(turn.commands()), None) or early_scan.usable(turn) or early_scan.ask(turn)
        if not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if not succeeded(command):
            return _blind(turn, refusal(command))
        found = answer(command).get("checkpoints")
        usable = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
        saved_before = ledger.has_saved(turn.run)
        checkpoints.record_scan(turn.run, usable, turn.now)
        choice = points.restore_point(turn.run)
        return gate.too_far_back(turn, choice) or _chosen(choice, saved_before=saved_before)


def _blind(turn: Turn, why: str) -> Outcome:
    """Try again; after the last try trust the ledger."""
    if turn.tried.try_number <= turn.spec.retries:
        return Failed(why)
    choice = points.restore_point(turn.run)
    if not choice.step:
        return Failed(f"{why}, and the ledger knows no complete checkpoint", retry=False)
    return Done(_facts(choice, f"{choice.why}, by the ledger alone since {why}"))


def _chosen(choice: RestoreChoice, *, saved_before: bool) -> Outcome:
    if not choice.step and saved_before:
        return Failed("checkpoints were saved but none on the disk is complete; a person has to decide", retry=False)
    return Done(_facts(choice, choice.why))


def _facts(choice: RestoreChoice, why: str) -> dict[str, Any]:
    skipped = [{"step": step, "why": reason} for step, reason in choice.skipped]
    what = f"the checkpoint of step {choice.step}" if choice.step else "to begin from the start"
    return {
        "step": choice.step, "restore_step": choice.step, "path": choice.path, "what": what, "why": why,
        "passed_over": skipped,
    }  # fmt: skip
