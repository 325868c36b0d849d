"""Runbooks as data: what they answer, which steps, how long each may take, and the words for each.

They are written as files that an operator edits (`runbooks/*.yaml`); `compiling` makes
these values of them. The engine knows nothing of a step but this, and the page and the
chronicle take their words from here, so a reader sees the same sentence everywhere. A
template's placeholders are filled from the step's intent and result; one that is
missing shows as “?”, because a chronicle must not fail over a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any

from controlplane.domain.recovery.actions import Action, Effect, Param, Words
from controlplane.domain.recovery.acts import Do

MODES = ("watch", "ask", "autopilot")
"""What automation may do, least first."""


class _Lenient(Formatter):
    """Fill what is known and put “?” for the rest; no attribute or index look-ups."""

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value = None if args else kwargs.get(field_name)
        return ("?" if value is None else value), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        try:
            return str(super().format_field(_listed(value), format_spec))
        except (TypeError, ValueError):
            return str(value)


def _listed(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return value


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """Fill a sentence template from `facts`."""
    return _Lenient().vformat(template, (), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step: an action with its arguments, `limit_s` for one try and `retries` after the first.

    An `optional` step that fails is skipped. `undo` names the action that takes it back.
    `line` is where the file names it.
    """

    name: str
    action: Action
    limit_s: float
    retries: int = 0
    optional: bool = False
    undo: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    said: Words
    line: int = 1

    @property
    def waits_for(self) -> str:
        """What the step waits for, in words."""
        return self.said.waits_for

    def words(self, phase: str, facts: Mapping[str, Any]) -> str:
        """Give the sentence for `phase`: next, doing, done or failed."""
        return fill(str(getattr(self.said, phase)), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One class of incident that a runbook answers, and the conditions under which it does.

    `asks` says why a person decides in any case, "" where automation may.
    """

    klass: str
    when: tuple[str, ...] = ()
    asks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The runbook's own guards, beside those that hold for all; None sets no limit.

    `uses` within `uses_s` on one run, `nodes` that one execution may leave out, `spares`
    that must remain free afterwards.
    """

    uses: int | None = None
    uses_s: float = 86_400.0
    nodes: int | None = None
    spares: int | None = None


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """A named, versioned list of steps; `code` is the requirement it fulfils.

    `mode` is the most that it may do without a person. `start` are the inputs that a
    person gives who starts it, None when nobody may. `digest` is that of its whole
    meaning, included runbooks too; `source` is the file, `text` its content.
    """

    id: str
    code: str
    version: int
    title: str
    summary: str
    steps: tuple[StepSpec, ...]
    answers: tuple[Answer, ...] = ()
    start: Mapping[str, Param] | None = None
    enabled: bool = True
    mode: str = "autopilot"
    priority: int = 0
    limits: Limits = field(default_factory=Limits)
    needs: tuple[str, ...] = ()
    digest: str = ""
    source: str = ""
    text: str = ""

    def index(self, name: str) -> int:
        """Find a step's place by its name; raise `KeyError` when it has none."""
        for place, step in enumerate(self.steps):
            if step.name == name:
                return place
        raise KeyError(name)

    def does(self, action: str) -> bool:
        """Say whether one of its steps is that action."""
        return any(step.action.name == action for step in self.steps)

    @cached_property
    def launches(self) -> bool:
        """Whether it starts an attempt."""
        return self.does("launch")

    @cached_property
    def rolls_back(self) -> bool:
        """Whether it goes back behind an onset rather than to the newest checkpoint."""
        return self.does("choose_rollback")

    @cached_property
    def patient(self) -> bool:
        """Whether it begins by waiting without touching anything."""
        return bool(self.steps) and self.steps[0].action.patient

    @cached_property
    def beside(self) -> bool:
        """Whether it watches what other runbooks do, and so keeps none of them from the run."""
        return any(step.action.beside for step in self.steps)

    @cached_property
    def touches(self) -> bool:
        """Whether it changes anything at all."""
        return any(step.action.effect is Effect.ACTS for step in self.steps)

    @cached_property
    def proposes(self) -> Do:
        """The act that a person is asked about, in the words of the replay report."""
        if self.patient:
            return Do.DRAIN
        if self.launches:
            return Do.ROLLBACK if self.rolls_back else Do.RESTART
        return Do.KILL if self.does("stop") else Do.CHECK
