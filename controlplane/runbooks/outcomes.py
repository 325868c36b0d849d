"""What a step may answer when it is asked how things stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Done:
    """The step is finished; `result` joins the execution's context and fills the sentence.

    `told` says that the step has told its end itself, in better words.
    """

    result: Mapping[str, Any] = field(default_factory=dict)
    told: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """The world has not answered yet; look again by `until` or when something happens."""

    until: datetime
    for_what: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """This try failed; `retry` false says that trying again cannot help."""

    why: str
    retry: bool = True


@dataclass(frozen=True, slots=True)
class Still:
    """A hold keeps the execution from going on; limits do not run meanwhile."""

    held_by: str
    why: str


@dataclass(frozen=True, slots=True)
class Propose:
    """A guard wants a person's word before the next act, or that of two different ones."""

    held_by: str
    why: str
    persons: int = 1


@dataclass(frozen=True, slots=True)
class End:
    """The whole execution ends here in a final state; `by` is the person who wanted it so."""

    state: str
    outcome: str
    by: str = ""


Outcome = Done | Wait | Failed | Still | Propose | End
