"""How far a rule may go in a run: say nothing, be recorded, propose, or act.

A new rule earns its place by being watched first: in `observe` everything that it
would have said is stored and shown, and nothing else happens. A mode can be set for a
detector ("D-04") and for a single signature rule ("xid-79"); the narrower one wins.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from controlplane.domain.errors import Invalid


class Mode(StrEnum):
    """What a rule's finding may lead to, weakest first."""

    OFF = "off"
    OBSERVE = "observe"
    PROPOSE = "propose"
    ACT = "act"


def checked(modes: Any) -> dict[str, str]:
    """Give the modes of a run's settings by rule; raise `Invalid` naming the rule."""
    if not isinstance(modes, Mapping):
        raise Invalid("modes", "must map rules to modes")
    for rule, mode in modes.items():
        if mode not in list(Mode):
            raise Invalid(f"modes.{rule}", f"must be one of {', '.join(Mode)}")
    return {str(rule): str(mode) for rule, mode in modes.items()}


def mode_of(modes: Mapping[str, str], detector: str, rule: str = "") -> Mode:
    """Give the mode of a signature rule, else of its detector, else `act`."""
    return Mode(modes.get(rule) or modes.get(detector) or Mode.ACT)


def weaker(said: str, allowed: Mode) -> str:
    """Give the weaker of what a finding asks for itself and what its rule is allowed."""
    order = list(Mode)
    return min(Mode(said), allowed, key=order.index).value
