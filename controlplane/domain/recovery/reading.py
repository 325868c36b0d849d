"""Read one runbook file into a draft; every mistake is told, not only the first.

A draft is not yet joined with the runbooks that it uses: `compiling` does that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.domain.diagnosis.classes import CLASSES
from controlplane.domain.recovery import values
from controlplane.domain.recovery.actions import Action, Kind, Param, Words
from controlplane.domain.recovery.conditions import CONDITIONS
from controlplane.domain.recovery.document import Document, Fields, Problem, Tree
from controlplane.domain.recovery.runbook import MODES, Answer, Limits, Runbook, StepSpec
from controlplane.domain.recovery.values import NAME, STEP_NAME, BadError, listed, need

MAX_STEPS = 32
MAX_ANSWERS = 64
MAX_INPUTS = 8
MAX_VERSION = 1_000_000
MAX_PRIORITY = 100
MAX_LIMIT = 10_000
MAX_RETRIES = 10
MAX_NAME = 60
MAX_TITLE = 100

FIELDS: Mapping[str, str] = {
    "runbook": "its id: lower-case words joined by -; the name under which others use it",
    "code": "a short name for lists and messages, such as R-01; OPS-1 and the like are free for your own",
    "version": f"a whole number from 1 to {MAX_VERSION}; raise it when the meaning changes",
    "title": f"up to {MAX_TITLE} characters, an order: “Restart after a crash”",
    "summary": f"what it does, up to {values.MAX_TEXT} characters",
    "enabled": "true (if not given) or false: shown and checked, never used",
    "mode": "the most that it may do without a person: watch, ask or autopilot (if not given)",
    "priority": f"0 (if not given) to {MAX_PRIORITY}; of two that answer, the higher one is taken",
    "answers": f"up to {MAX_ANSWERS} classes of incident that it answers, each with `class`, `when` and `ask`",
    "start": f"that a person may start it, and up to {MAX_INPUTS} inputs that the person gives",
    "needs": f"up to {values.MAX_TEXTS} sentences: what must be in place before it is of use",
    "limits": "its own guards: `uses` on one run `within` a time, `nodes` that it may leave out, `spares` to remain",
    "steps": f"1 to {MAX_STEPS} steps, those of the runbooks that it uses counted",
}
STEP_FIELDS: Mapping[str, str] = {
    "use": "the id of another runbook whose steps stand here; nothing else may stand beside it",
    "do": "the action",
    "name": "a name of its own, where an action is used twice",
    "with": "the action's arguments",
    "within": "the limit of one try, such as 30 s, 5 min or 2 h, up to 90 d",
    "retries": f"further tries after the first, 0 to {MAX_RETRIES}",
    "optional": "true: when it fails, the next step is taken",
    "undo": "the action that takes it back, where it is not the usual one",
    "say": "other words for `next`, `doing`, `done`, `failed` or `waits_for`; {names} are filled in",
}
WORDS = ("next", "doing", "done", "failed", "waits_for")
_TEXT = Param(kind=Kind.TEXT, about="")


@dataclass(frozen=True)
class Use:
    """`use: other-runbook`: its steps stand here."""

    runbook: str
    tree: Tree


@dataclass
class Draft:
    """A file that was read but not yet joined with those that it uses."""

    runbook: Runbook
    parts: list[StepSpec | Use]
    document: Document


def read(document: Document, actions: Mapping[str, Action]) -> tuple[Draft | None, list[Problem]]:
    """Read a file; give the draft, None when there is no making one, and everything that is wrong with it."""
    reader = _Reader(actions)
    try:
        root = values.fields(document.root, "")
        draft = Draft(reader.runbook(root, document), reader.parts, document)
    except BadError as bad:
        return None, [*reader.problems, bad.problem]
    return draft, reader.problems


class _Reader:
    """Reads one file; goes on after a mistake in a step or an answer, so that all are told at once."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self.actions = actions
        self.problems: list[Problem] = []
        self.parts: list[StepSpec | Use] = []

    def runbook(self, root: Fields, document: Document) -> Runbook:
        self._unknown(root, FIELDS, "")
        self.parts = self._steps(need(root, "steps"))
        given = root.fields
        return Runbook(
            id=values.matching(need(root, "runbook"), "runbook", NAME, "lower-case words joined by -"),
            code=values.matching(need(root, "code"), "code", values.CODE, "such as R-01"),
            version=values.count(need(root, "version"), "version", 1, MAX_VERSION),
            title=values.text(need(root, "title"), "title", MAX_TITLE),
            summary=values.text(need(root, "summary"), "summary"),
            enabled=values.flag(given["enabled"], "enabled") if "enabled" in given else True,
            mode=values.choice(given["mode"], "mode", MODES) if "mode" in given else MODES[-1],
            priority=values.count(given["priority"], "priority", 0, MAX_PRIORITY) if "priority" in given else 0,
            answers=tuple(self._answers(root)),
            start=self._start(root),
            needs=tuple(values.texts(given.get("needs"), "needs")),
            limits=self._limits(root),
            steps=(), source=document.source, text=document.text,
        )  # fmt: skip

    def _unknown(self, given: Fields, known: Mapping[str, Any] | set[str], where: str) -> None:
        for name, tree in given.fields.items():
            if name not in known:
                path = f"{where}.{name}" if where else name
                self.problems.append(Problem(tree.line, path[:200], f"is not known here; known are {listed(known)}"))

    def _answers(self, root: Fields) -> Iterator[Answer]:
        tree = root.fields.get("answers")
        if tree is None:
            return
        for place, item in enumerate(values.items(tree, "answers", MAX_ANSWERS)):
            where = f"answers[{place}]"
            try:
                yield self._answer(values.fields(item, where), where)
            except BadError as bad:
                self.problems.append(bad.problem)

    def _answer(self, item: Fields, where: str) -> Answer:
        self._unknown(item, {"class", "when", "ask"}, where)
        klass = values.choice(need(item, "class", where), f"{where}.class", tuple(CLASSES))
        tree = item.fields.get("when")
        when = () if tree is None else values.items(tree, f"{where}.when", len(CONDITIONS))
        names = tuple(values.choice(name, f"{where}.when", tuple(CONDITIONS)) for name in when)
        asks = values.text(item.fields["ask"], f"{where}.ask") if "ask" in item.fields else ""
        return Answer(klass=klass, when=names, asks=asks)

    def _start(self, root: Fields) -> Mapping[str, Param] | None:
        """Read what a person gives who starts it; None when nobody may."""
        tree = root.fields.get("start")
        if tree is None:
            return None
        given = values.fields(tree, "start").fields
        if len(given) > MAX_INPUTS:
            raise BadError(tree, "start", f"has {len(given)} inputs; {MAX_INPUTS} are allowed")
        return {name: self._input(name, values.fields(item, f"start.{name}")) for name, item in given.items()}

    def _input(self, name: str, item: Fields) -> Param:
        where = f"start.{name}"
        if not STEP_NAME.fullmatch(name):
            raise BadError(item, where[:200], "must be named by a lower-case word")
        self._unknown(item, {"about", "choices", "default"}, where)
        about = values.text(need(item, "about", where), f"{where}.about")
        choices = tuple(values.texts(item.fields.get("choices"), f"{where}.choices"))
        made = replace(_TEXT, about=about, kind=Kind.CHOICE if choices else Kind.TEXT, choices=choices)
        if "default" not in item.fields:
            return replace(made, required=True)
        return replace(made, default=values.argument(item.fields["default"], f"{where}.default", made))

    def _limits(self, root: Fields) -> Limits:
        tree = root.fields.get("limits")
        if tree is None:
            return Limits()
        given = values.fields(tree, "limits")
        self._unknown(given, {"uses", "within", "nodes", "spares"}, "limits")
        found: dict[str, Any] = {}
        for name in ("uses", "nodes", "spares"):
            if name in given.fields:
                found[name] = values.count(given.fields[name], f"limits.{name}", 0, MAX_LIMIT)
        if "within" in given.fields:
            found["uses_s"] = values.duration(given.fields["within"], "limits.within")
        return Limits(**found)

    def _steps(self, tree: Tree) -> list[StepSpec | Use]:
        made: list[StepSpec | Use] = []
        for place, item in enumerate(values.items(tree, "steps", MAX_STEPS)):
            where = f"steps[{place}]"
            try:
                made.append(self._step(values.fields(item, where), where))
            except BadError as bad:
                self.problems.append(bad.problem)
        if not made and not self.problems:
            raise BadError(tree, "steps", "must have at least one step")
        return made

    def _step(self, item: Fields, where: str) -> StepSpec | Use:
        if "use" in item.fields:
            self._unknown(item, {"use"}, where)
            return Use(values.matching(item.fields["use"], f"{where}.use", NAME, "the id of a runbook"), item)
        self._unknown(item, STEP_FIELDS, where)
        action, given = self._action(item, where), item.fields
        return StepSpec(
            name=values.matching(given["name"], f"{where}.name", STEP_NAME, "a lower-case word") if "name" in given
            else action.name,
            action=action,
            limit_s=values.duration(given["within"], f"{where}.within") if "within" in given else action.limit_s,
            retries=values.count(given["retries"], f"{where}.retries", 0, MAX_RETRIES) if "retries" in given
            else action.retries,
            optional=values.flag(given["optional"], f"{where}.optional") if "optional" in given else action.optional,
            undo=self._undo(item, action, where),
            args=self._args(item, action, where),
            said=self._words(item, action, where),
            line=item.line,
        )  # fmt: skip

    def _action(self, item: Fields, where: str) -> Action:
        do = need(item, "do", where)
        action = self.actions.get(values.text(do, f"{where}.do", MAX_NAME))
        if action is None:
            raise BadError(do, f"{where}.do", f"no action is called that; known are {listed(self.actions)}")
        return action

    def _undo(self, item: Fields, action: Action, where: str) -> str:
        tree = item.fields.get("undo")
        if tree is None:
            return action.undo
        name = values.text(tree, f"{where}.undo", MAX_NAME)
        if name not in self.actions:
            raise BadError(tree, f"{where}.undo", f"no action is called {name}")
        return name

    def _args(self, item: Fields, action: Action, where: str) -> dict[str, Any]:
        tree = item.fields.get("with")
        given = values.fields(tree, f"{where}.with") if tree is not None else Fields({}, item.line)
        self._unknown(given, set(action.params), f"{where}.with")
        missing = [name for name, param in action.params.items() if param.required and name not in given.fields]
        if missing:
            raise BadError(item, f"{where}.with", f"{action.name} needs {listed(missing)}")
        return {
            name: values.argument(given.fields[name], f"{where}.with.{name}", param) if name in given.fields
            else param.default
            for name, param in action.params.items()
        }  # fmt: skip

    def _words(self, item: Fields, action: Action, where: str) -> Words:
        tree = item.fields.get("say")
        if tree is None:
            return action.words
        given = values.fields(tree, f"{where}.say")
        self._unknown(given, set(WORDS), f"{where}.say")
        told = {name: values.template(said, f"{where}.say.{name}") for name, said in given.fields.items()
                if name in WORDS}  # fmt: skip
        return replace(action.words, **told)
