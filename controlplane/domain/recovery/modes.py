"""How far automation may go: the least of what the run, the runbook's file and people allow.

A run has one switch. Below it a runbook can be held back, by its file or by a person;
nothing can lift it above the run's switch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.domain.recovery.runbook import MODES, Runbook

AUTOPILOT = MODES[-1]

_WHY = {
    "run": {"watch": "the run is only watched", "ask": "the run asks before it acts"},
    "file": {"watch": "the runbook's file lets it only watch", "ask": "the runbook's file lets it only ask"},
    "person": {"watch": "a person set the runbook to watch", "ask": "a person set the runbook to ask"},
}


@dataclass(frozen=True, slots=True)
class Allowed:
    """`mode` is what automation may do, `why` what keeps it from more, "" on autopilot."""

    mode: str
    why: str = ""


def least(modes: Iterable[str]) -> str:
    """Give the most cautious of `modes`; empty ones say nothing."""
    return min((mode for mode in modes if mode), key=MODES.index, default=AUTOPILOT)


def allowed(run_mode: str, runbook: Runbook, override: str = "") -> Allowed:
    """Say how far a runbook may go on a run; `override` is what people set it to, "" for nothing."""
    sources = {"run": run_mode, "file": runbook.mode, "person": override}
    mode = least(sources.values())
    if mode == AUTOPILOT:
        return Allowed(mode)
    first = next(name for name, value in sources.items() if value == mode)
    return Allowed(mode, _WHY[first][mode])
