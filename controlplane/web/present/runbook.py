"""A runbook in words: what it answers, how far it goes, and what each step may do."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from controlplane.domain.diagnosis.classes import class_of
from controlplane.domain.recovery.conditions import CONDITIONS
from controlplane.domain.recovery.runbook import Answer, Limits, Runbook, StepSpec
from controlplane.web.present import badges, words
from controlplane.web.present.words import Badge

UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))
MAX_DIFF = 400
CONTEXT_LINES = 2
SIGNS: Mapping[str, tuple[str, str]] = {"+": ("added", "good"), "-": ("removed", "bad"), "@": ("place", "muted")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One class that a runbook answers; `when` are the conditions that must all hold."""

    klass: str
    when: tuple[str, ...]
    asks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCard:
    """One step of a definition."""

    name: str
    about: str
    effect: Badge
    bounds: str
    waits_for: str
    undo: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """One line of a difference; `kind` is added, removed, place or kept."""

    kind: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """How the last uses of a runbook ended; `typical` is the median of those that succeeded."""

    count: int
    succeeded: int
    typical: str


def length(seconds: float) -> str:
    """Write a set length of time in its largest whole unit: `1 h`, `90 s`."""
    for size, unit in UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{words.number(seconds // size)} {unit}"
    return words.span(seconds)


def triggers(answers: Iterable[Answer]) -> list[Trigger]:
    """Put what a runbook answers into words."""
    return [
        Trigger(
            klass=class_of(answer.klass).title,
            when=tuple(CONDITIONS[name].about for name in answer.when),
            asks=answer.asks,
        )
        for answer in answers
    ]


def classes(runbook: Runbook) -> str:
    """List what it answers, each class once."""
    titles = dict.fromkeys(class_of(answer.klass).title for answer in runbook.answers)
    if titles:
        return words.sentence(", ".join(titles))
    return "Nothing by itself: a person starts it" if runbook.start is not None else "Nothing: other runbooks use it"


def limits(own: Limits) -> list[str]:
    """Put a runbook's own guards into words."""
    told = []
    if own.uses is not None:
        told.append(f"at most {words.plural(own.uses, 'use')} on one run within {length(own.uses_s)}")
    if own.nodes is not None:
        told.append(f"at most {words.plural(own.nodes, 'node')} left out by one execution")
    if own.spares is not None:
        told.append(f"at least {words.plural(own.spares, 'spare')} free afterwards")
    return told


def steps(runbook: Runbook) -> list[StepCard]:
    """Put the steps of a definition into words."""
    return [_step(spec) for spec in runbook.steps]


def _step(spec: StepSpec) -> StepCard:
    return StepCard(
        name=spoken(spec.name),
        about=spec.action.about.replace("`", ""),
        effect=badges.of(badges.EFFECT, spec.action.effect.value),
        bounds=_bounds(spec),
        waits_for=spec.waits_for if spec.waits_for != "nothing" else "",
        undo=f"taken back by “{spoken(spec.undo)}”" if spec.undo else "",
        args=tuple(f"{name}: {_argument(value)}" for name, value in spec.args.items() if value is not None),
    )


def _bounds(spec: StepSpec) -> str:
    told = [f"up to {length(spec.limit_s)}"]
    if spec.retries:
        told.append(f"{words.plural(spec.retries, 'retry', 'retries')}")
    if spec.optional:
        told.append("skipped when it fails")
    return ", ".join(told)


def _argument(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " / ".join(map(str, value))
    return words.number(value) if isinstance(value, int | float) else str(value)


def spoken(name: str) -> str:
    """Write the name of a step or an action as words."""
    return name.replace("_", " ")


def diff(before: str, after: str) -> list[DiffLine]:
    """Compare two texts line by line, a little of what stands around each change included."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=CONTEXT_LINES, lineterm="")
    return [_diff_line(line) for _, line in zip(range(MAX_DIFF), _behind_head(lines), strict=False)]


def _behind_head(lines: Iterable[str]) -> Iterable[str]:
    """Leave out the two lines that name the files."""
    return (line for place, line in enumerate(lines) if place > 1)


def _diff_line(line: str) -> DiffLine:
    kind, tone = SIGNS.get(line[:1], ("kept", "quiet"))
    return DiffLine(kind=kind, tone=tone, text=line.strip("@ ") if kind == "place" else line[1:])


def changes(before: Mapping[str, str], after: Mapping[str, str], own: str) -> list[DiffLine]:
    """Compare two definitions: the runbook's own file first, the files that it uses only where that is the same."""
    found = diff(before.get(own, ""), after.get(own, ""))
    if found:
        return found
    others = sorted((set(before) & set(after)) - {own})
    return [line for source in others for line in diff(before[source], after[source])][:MAX_DIFF]


def uses(ended: Sequence[tuple[str, float]]) -> Uses:
    """Sum up the last uses, each as its final state and its seconds."""
    took = [seconds for state, seconds in ended if state == "succeeded"]
    return Uses(count=len(ended), succeeded=len(took), typical=words.span(median(took)) if took else "")
