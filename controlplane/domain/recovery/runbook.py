"""Runbooks as data: which steps, how long each may take, and the words for each.

The engine knows nothing of a step but this; the page and the chronicle take their
words from here, so a reader sees the same sentence everywhere. A template's
placeholders are filled from the step's intent and result; one that is missing
shows as “?”, because a chronicle must not fail over a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any


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
    """One step: `limit_s` for one try, `retries` after the first, words for each outcome.

    An `optional` step that fails is skipped. `next_words` says in the future tense what
    will happen (the page's “Next:”), `doing` in the present, `done` and `failed` in the past.
    """

    name: str
    limit_s: float
    retries: int = 0
    optional: bool = False
    waits_for: str = ""
    next_words: str
    doing: str
    done: str
    failed: str

    def words(self, phase: str, facts: Mapping[str, Any]) -> str:
        """Give the sentence for `phase`: next_words, doing, done or failed."""
        return fill(str(getattr(self, phase)), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """A named, versioned list of steps; `code` is the requirement it fulfils."""

    id: str
    code: str
    version: int
    title: str
    summary: str
    steps: tuple[StepSpec, ...]

    def index(self, name: str) -> int:
        """Find a step's place by its name; raise `KeyError` when it has none."""
        for place, step in enumerate(self.steps):
            if step.name == name:
                return place
        raise KeyError(name)


COLLECT_BUDGET_S = 3.0
"""How long agents may gather stacks before something is stopped (requirements H-21)."""
