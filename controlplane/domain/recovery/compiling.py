"""Make runbooks of files; what is wrong is told with its line, and nothing half-read is used.

Every action exists, every argument is of the right kind and inside its limits, every
fact that a step needs is given by a step before it, and included runbooks form no
cycle. Texts are plain: bounded, printable, with named placeholders at most.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any

from controlplane.domain.diagnosis.classes import CLASSES
from controlplane.domain.recovery.actions import Action, Effect, Kind, Param, Words
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.conditions import CONDITIONS
from controlplane.domain.recovery.document import Document, Fields, Items, Leaf, Problem, Tree
from controlplane.domain.recovery.runbook import MODES, Answer, Limits, Runbook, StepSpec

MAX_STEPS = 32
MAX_ANSWERS = 64
MAX_TEXT = 500
MAX_RUNBOOKS = 200
MAX_VERSION = 1_000_000
MAX_LIMIT_S = 90 * 86_400.0
MAX_RETRIES = 10
MAX_DEPTH_OF_USE = 8

NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,15}")
STEP_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
CODE = re.compile(r"[A-Z]{1,4}-\d{1,3}")
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|min|h|d)")
SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
WORDS = ("next", "doing", "done", "failed", "waits_for")
INPUTS = frozenset({"attempt"})
"""Facts that every execution has from its start."""


class _BadError(Exception):
    """A value cannot be used; the problem says where and why."""

    def __init__(self, tree: Tree, name: str, why: str) -> None:
        super().__init__(why)
        self.problem = Problem(tree.line, name, why)


@dataclass
class _Draft:
    """A file that was read but not yet joined with those that it uses."""

    runbook: Runbook
    parts: list["StepSpec | _Use"]
    document: Document


@dataclass(frozen=True)
class _Use:
    """`use: other-runbook`: its steps stand here."""

    runbook: str
    tree: Tree


@dataclass
class Compiled:
    """What came of all files: the catalog of the good ones, and the problems by file."""

    catalog: Catalog
    problems: dict[str, list[Problem]] = field(default_factory=dict)


def compile_all(documents: Sequence[Document], actions: Mapping[str, Action]) -> Compiled:
    """Compile files against the known actions. A file with a problem is left out, the others stand."""
    drafts: dict[str, _Draft] = {}
    problems: dict[str, list[Problem]] = {}
    for document in documents[:MAX_RUNBOOKS]:
        draft, found = _read(document, actions)
        if draft and draft.runbook.id in drafts:
            other = drafts[draft.runbook.id].document.source
            found.append(Problem(document.root.line, "runbook", f"{draft.runbook.id} is also in {other}"))
        if found or draft is None:
            problems[document.source] = sorted(found)
        else:
            drafts[draft.runbook.id] = draft
    for document in documents[MAX_RUNBOOKS:]:
        problems[document.source] = [Problem(1, "", f"more than {MAX_RUNBOOKS} runbooks")]
    runbooks: dict[str, Runbook] = {}
    for name, draft in drafts.items():
        try:
            runbooks[name] = _finished(draft, drafts)
        except _BadError as bad:
            problems[draft.document.source] = [bad.problem]
    return Compiled(Catalog(runbooks), problems)


# one file


def _read(document: Document, actions: Mapping[str, Action]) -> tuple[_Draft | None, list[Problem]]:
    reader = _Reader(actions)
    try:
        root = _fields(document.root, "")
        draft = _Draft(reader.runbook(root, document), reader.parts, document)
    except _BadError as bad:
        return None, [*reader.problems, bad.problem]
    return draft, reader.problems


class _Reader:
    """Reads one file; goes on after a mistake in a step or an answer, so that all are told at once."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self.actions = actions
        self.problems: list[Problem] = []
        self.parts: list[StepSpec | _Use] = []

    def runbook(self, root: Fields, document: Document) -> Runbook:
        known = {"runbook", "code", "version", "title", "summary", "mode", "priority", "answers", "needs", "limits",
                 "steps"}  # fmt: skip
        self._unknown(root, known, "")
        self.parts = self._steps(_need(root, "steps"))
        return Runbook(
            id=_matching(_need(root, "runbook"), "runbook", NAME, "lower-case words joined by -"),
            code=_matching(_need(root, "code"), "code", CODE, "such as R-01"),
            version=_count(_need(root, "version"), "version", 1, MAX_VERSION),
            title=_text(_need(root, "title"), "title", 100),
            summary=_text(_need(root, "summary"), "summary"),
            mode=_choice(root.fields["mode"], "mode", MODES) if "mode" in root.fields else MODES[-1],
            priority=_count(root.fields["priority"], "priority", 0, 100) if "priority" in root.fields else 0,
            answers=tuple(self._answers(root)),
            needs=tuple(_texts(root.fields.get("needs"), "needs")),
            limits=self._limits(root),
            steps=(), source=document.source, text=document.text,
        )  # fmt: skip

    def _unknown(self, fields: Fields, known: frozenset[str] | set[str], where: str) -> None:
        for name, tree in fields.fields.items():
            if name not in known:
                path = f"{where}.{name}" if where else name
                self.problems.append(Problem(tree.line, path, f"is not known here; known are {_listed(known)}"))

    def _answers(self, root: Fields) -> Iterator[Answer]:
        tree = root.fields.get("answers")
        if tree is None:
            return
        for place, item in enumerate(_items(tree, "answers", MAX_ANSWERS)):
            where = f"answers[{place}]"
            try:
                yield self._answer(_fields(item, where), where)
            except _BadError as bad:
                self.problems.append(bad.problem)

    def _answer(self, item: Fields, where: str) -> Answer:
        self._unknown(item, {"class", "when", "ask"}, where)
        klass = _choice(_need(item, "class", where), f"{where}.class", tuple(CLASSES))
        tree = item.fields.get("when")
        when = [] if tree is None else _items(tree, f"{where}.when", len(CONDITIONS))
        names = tuple(_choice(name, f"{where}.when", tuple(CONDITIONS)) for name in when)
        asks = _text(item.fields["ask"], f"{where}.ask") if "ask" in item.fields else ""
        return Answer(klass=klass, when=names, asks=asks)

    def _limits(self, root: Fields) -> Limits:
        tree = root.fields.get("limits")
        if tree is None:
            return Limits()
        fields = _fields(tree, "limits")
        self._unknown(fields, {"uses", "within", "nodes", "spares"}, "limits")
        found: dict[str, Any] = {}
        for name in ("uses", "nodes", "spares"):
            if name in fields.fields:
                found[name] = _count(fields.fields[name], f"limits.{name}", 0, 10_000)
        if "within" in fields.fields:
            found["uses_s"] = _duration(fields.fields["within"], "limits.within")
        return Limits(**found)

    def _steps(self, tree: Tree) -> list["StepSpec | _Use"]:
        made: list[StepSpec | _Use] = []
        for place, item in enumerate(_items(tree, "steps", MAX_STEPS)):
            where = f"steps[{place}]"
            try:
                made.append(self._step(_fields(item, where), where))
            except _BadError as bad:
                self.problems.append(bad.problem)
        if not made and not self.problems:
            raise _BadError(tree, "steps", "must have at least one step")
        return made

    def _step(self, item: Fields, where: str) -> "StepSpec | _Use":
        if "use" in item.fields:
            self._unknown(item, {"use"}, where)
            return _Use(_matching(item.fields["use"], f"{where}.use", NAME, "the id of a runbook"), item)
        self._unknown(item, {"do", "name", "with", "within", "retries", "optional", "undo", "say"}, where)
        do = _need(item, "do", where)
        action = self.actions.get(_text(do, f"{where}.do", 60))
        if action is None:
            raise _BadError(do, f"{where}.do", f"no action is called that; known are {_listed(self.actions)}")
        fields = item.fields
        return StepSpec(
            name=_matching(fields["name"], f"{where}.name", STEP_NAME, "a lower-case word") if "name" in fields
            else action.name,
            action=action,
            limit_s=_duration(fields["within"], f"{where}.within") if "within" in fields else action.limit_s,
            retries=_count(fields["retries"], f"{where}.retries", 0, MAX_RETRIES) if "retries" in fields
            else action.retries,
            optional=_flag(fields["optional"], f"{where}.optional") if "optional" in fields else action.optional,
            undo=self._undo(item, action, where),
            args=self._args(item, action, where),
            said=self._words(item, action, where),
        )  # fmt: skip

    def _undo(self, item: Fields, action: Action, where: str) -> str:
        tree = item.fields.get("undo")
        if tree is None:
            return action.undo
        name = _text(tree, f"{where}.undo", 60)
        if name not in self.actions:
            raise _BadError(tree, f"{where}.undo", f"no action is called {name}")
        return name

    def _args(self, item: Fields, action: Action, where: str) -> dict[str, Any]:
        tree = item.fields.get("with")
        given = _fields(tree, f"{where}.with") if tree is not None else Fields({}, item.line)
        self._unknown(given, set(action.params), f"{where}.with")
        missing = [name for name, param in action.params.items() if param.required and name not in given.fields]
        if missing:
            raise _BadError(item, f"{where}.with", f"{action.name} needs {_listed(missing)}")
        return {
            name: _argument(given.fields[name], f"{where}.with.{name}", param) if name in given.fields
            else param.default
            for name, param in action.params.items()
        }  # fmt: skip

    def _words(self, item: Fields, action: Action, where: str) -> Words:
        tree = item.fields.get("say")
        if tree is None:
            return action.words
        fields = _fields(tree, f"{where}.say")
        self._unknown(fields, set(WORDS), f"{where}.say")
        told = {name: _template(value, f"{where}.say.{name}") for name, value in fields.fields.items() if name in WORDS}
        return replace(action.words, **told)


# all files together


def _finished(draft: _Draft, drafts: Mapping[str, _Draft]) -> Runbook:
    steps = tuple(_expanded(draft, drafts, (draft.runbook.id,)))
    root = draft.document.root
    if len(steps) > MAX_STEPS:
        raise _BadError(root, "steps", f"{len(steps)} steps with those of other runbooks; {MAX_STEPS} are allowed")
    names = [step.name for step in steps]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _BadError(root, "steps", f"{_listed(twice)} stands twice; give one of them another `name`")
    if draft.runbook.answers:
        _check_inputs(steps, root)
    runbook = replace(draft.runbook, steps=steps)
    return replace(runbook, digest=_digest(runbook))


def _expanded(draft: _Draft, drafts: Mapping[str, _Draft], chain: tuple[str, ...]) -> Iterator[StepSpec]:
    for part in draft.parts:
        if isinstance(part, StepSpec):
            yield part
            continue
        if part.runbook in chain:
            raise _BadError(part.tree, "use", f"a cycle: {' uses '.join((*chain, part.runbook))}")
        if part.runbook not in drafts:
            raise _BadError(part.tree, "use", f"no sound runbook is called {part.runbook}")
        if len(chain) > MAX_DEPTH_OF_USE:
            raise _BadError(part.tree, "use", f"runbooks use each other deeper than {MAX_DEPTH_OF_USE}")
        yield from _expanded(drafts[part.runbook], drafts, (*chain, part.runbook))


def _check_inputs(steps: Sequence[StepSpec], root: Tree) -> None:
    """A runbook that starts by itself has every input; one that others use may get some from them."""
    known = set(INPUTS)
    for step in steps:
        missing = step.action.needs - known
        if missing:
            why = f"step {step.name} needs {_listed(missing)}, which no earlier step gives"
            raise _BadError(root, "steps", why)
        known |= step.action.gives
    acts = [step for step in steps if step.action.effect is Effect.ACTS]
    if acts and not any(step.action.name in GATES for step in steps[: steps.index(acts[0])]):
        raise _BadError(root, "steps", f"step {acts[0].name} acts before any of {_listed(GATES)} has asked the guards")


GATES = frozenset({"confirm", "await_boundary"})
"""Actions that ask the guards at the last moment before the first act."""


def _digest(runbook: Runbook) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of what the runbook means, whatever its layout."""
    meaning = {
        "id": runbook.id, "version": runbook.version, "mode": runbook.mode, "priority": runbook.priority,
        "answers": [(answer.klass, answer.when, answer.asks) for answer in runbook.answers],
        "limits": [runbook.limits.uses, runbook.limits.uses_s, runbook.limits.nodes, runbook.limits.spares],
        "steps": [
            (step.name, step.action.name, step.limit_s, step.retries, step.optional, step.undo, dict(step.args))
            for step in runbook.steps
        ],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, default=str).encode()).hexdigest()[:16]


# values


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


def _fields(tree: Tree, name: str) -> Fields:
    if not isinstance(tree, Fields):
        raise _BadError(tree, name, "must be a mapping of names to values")
    return tree


def _items(tree: Tree, name: str, most: int) -> tuple[Tree, ...]:
    if not isinstance(tree, Items):
        raise _BadError(tree, name, "must be a list")
    if len(tree.items) > most:
        raise _BadError(tree, name, f"has {len(tree.items)} items; {most} are allowed")
    return tree.items


def _need(fields: Fields, name: str, where: str = "") -> Tree:
    if name not in fields.fields:
        raise _BadError(fields, f"{where}.{name}" if where else name, "is missing")
    return fields.fields[name]


def _text(tree: Tree, name: str, most: int = MAX_TEXT) -> str:
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, str) or not value.strip():
        raise _BadError(tree, name, "must be a text")
    words = " ".join(value.split())
    if len(words) > most:
        raise _BadError(tree, name, f"has {len(words)} characters; {most} are allowed")
    if not words.isprintable():
        raise _BadError(tree, name, "has characters that cannot be shown")
    return words


def _texts(tree: Tree | None, name: str) -> Iterator[str]:
    if tree is not None:
        yield from (_text(item, f"{name}[{place}]") for place, item in enumerate(_items(tree, name, 32)))


def _template(tree: Tree, name: str) -> str:
    """A text whose placeholders are plain names: no attribute, no index, no format tricks."""
    text = _text(tree, name)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise _BadError(tree, name, f"cannot be filled: {error}") from error
    for _, place, spec, conversion in parts:
        if place is not None and (not STEP_NAME.fullmatch(place) or spec or conversion):
            raise _BadError(tree, name, f"{{{place}}} is no plain placeholder such as {{step}}")
    return text


def _matching(tree: Tree, name: str, pattern: re.Pattern[str], meant: str) -> str:
    value = _text(tree, name, 100)
    if not pattern.fullmatch(value):
        raise _BadError(tree, name, f"must be {meant}, not “{value}”")
    return value


def _choice(tree: Tree, name: str, choices: Sequence[str]) -> str:
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, str) or value not in choices:
        raise _BadError(tree, name, f"must be one of {', '.join(choices)}")
    return value


def _flag(tree: Tree, name: str) -> bool:
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, bool):
        raise _BadError(tree, name, "must be true or false")
    return value


def _number(tree: Tree, name: str, least: float, most: float) -> float:
    value = tree.value if isinstance(tree, Leaf) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise _BadError(tree, name, f"must be a number from {least:g} to {most:g}")
    return value


def _count(tree: Tree, name: str, least: float, most: float) -> int:
    value = _number(tree, name, least, most)
    if not isinstance(value, int):
        raise _BadError(tree, name, "must be a whole number")
    return value


def _duration(tree: Tree, name: str, least: float = 0.001, most: float = MAX_LIMIT_S) -> float:
    value = tree.value if isinstance(tree, Leaf) else None
    found = DURATION.fullmatch(value) if isinstance(value, str) else None
    seconds = float(found[1]) * SECONDS[found[2]] if found else -1.0
    if not least <= seconds <= most:
        raise _BadError(tree, name, f"must be a time such as 30 s, 5 min or 2 h, from {least:g} s to {most:g} s")
    return seconds


def _argument(tree: Tree, name: str, param: Param) -> object:
    match param.kind:
        case Kind.DURATION:
            return _duration(tree, name, max(0.001, param.least), min(MAX_LIMIT_S, param.most))
        case Kind.COUNT:
            return _count(tree, name, param.least, min(param.most, 1e15))
        case Kind.NUMBER:
            return _number(tree, name, param.least, param.most)
        case Kind.CHOICE:
            return _choice(tree, name, param.choices)
        case Kind.FLAG:
            return _flag(tree, name)
        case Kind.TEXT:
            return _template(tree, name)
