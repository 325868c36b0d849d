"""What an action of a runbook is, as data: its inputs, results, words and limits.

Guards, pages, documents and the checks of a file all read it from here, so that an
action is described once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Effect(StrEnum):
    """What an action may change; guards and approvals go by it.

    `watches` changes nothing and no hold keeps it. `looks` changes nothing yet and is
    kept by a hold. `acts` changes a run, nodes or people's pagers.
    """

    WATCHES = "watches"
    LOOKS = "looks"
    ACTS = "acts"


class Kind(StrEnum):
    """Kinds of argument."""

    DURATION = "duration"
    COUNT = "count"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"
    CHOICE = "choice"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One argument of an action in a file; durations are seconds once they are read."""

    kind: Kind
    about: str
    required: bool = False
    default: object = None
    least: float = 0.0
    most: float = float("inf")
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a step is told: `next` in the future, `doing` in the present, `done` and `failed` in the past."""

    next: str
    doing: str
    done: str
    failed: str
    waits_for: str = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action. `needs` and `gives` name facts of the execution's context.

    `limit_s` is for one try; `retries` follow the first. `by_launcher` says that the
    launcher carries it out. `patient` waits without touching anything and gives way to
    more urgent work. `beside` waits for what other runbooks do and lets them work on the
    run meanwhile. `fallback` does something only where the step before it failed. `undo`
    names the action that takes it back, "" where nothing can.
    """

    name: str
    about: str
    effect: Effect
    words: Words
    limit_s: float
    retries: int = 0
    optional: bool = False
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    params: Mapping[str, Param] = field(default_factory=dict)
    by_launcher: bool = False
    patient: bool = False
    beside: bool = False
    fallback: bool = False
    undo: str = ""
