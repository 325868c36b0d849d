"""The tables of docs/runbooks.md, written from the data that the checks use, so that they cannot lie."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.domain.recovery.action import Action, Kind, Param
from controlplane.domain.recovery.conditions import Condition
from controlplane.domain.recovery.reading import FIELDS, STEP_FIELDS
from controlplane.domain.recovery.runbook import Runbook
from controlplane.domain.recovery.values import SECONDS

MARKS = ("files", "steps", "actions", "conditions", "runbooks")


def written(text: str, tables: Mapping[str, str]) -> str:
    """Put each table between its marks, `<!-- name -->` and `<!-- /name -->`; `ValueError` where one is missing."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"the document needs {begin} and {end} once each")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    return text


def tables(
    actions: Mapping[str, Action], conditions: Mapping[str, Condition], runbooks: Mapping[str, Runbook]
) -> dict[str, str]:
    """Give every table by the name of its marks."""
    return {
        "files": _table(("field", "meaning"), ((f"`{name}`", about) for name, about in FIELDS.items())),
        "steps": _table(("field", "meaning"), ((f"`{name}`", about) for name, about in STEP_FIELDS.items())),
        "actions": _table(
            ("action", "what it does", "effect", "limit", "needs → gives", "undo"),
            (_action(action) for _, action in sorted(actions.items())),
        ),
        "conditions": _table(
            ("condition", "holds when"), ((f"`{name}`", one.about) for name, one in conditions.items())
        ),
        "runbooks": _table(
            ("runbook", "code", "answers or starts", "steps"),
            (_runbook(one) for one in sorted(runbooks.values(), key=lambda one: (one.code, one.id))),
        ),
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _action(action: Action) -> tuple[str, ...]:
    more = f" {'; '.join(_param(name, param) for name, param in action.params.items())}." if action.params else ""
    tries = f", {action.retries + 1} tries" if action.retries else ""
    skipped = ", may be skipped" if action.optional else ""
    return (
        f"`{action.name}`", f"{action.about}{more}", action.effect.value, f"{time(action.limit_s)}{tries}{skipped}",
        f"{_names(action.needs)} → {_names(action.gives)}", f"`{action.undo}`" if action.undo else "",
    )  # fmt: skip


def _param(name: str, param: Param) -> str:
    kind = f"one of {', '.join(param.choices)}" if param.choices else param.kind.value
    given = "needed" if param.required else f"if not given {_default(param)}"
    return f"`{name}` ({kind}, {given}): {param.about}"


def _default(param: Param) -> str:
    if param.default is None:
        return "never"
    if param.kind is Kind.DURATION and isinstance(param.default, (int, float)):
        return time(param.default)
    if isinstance(param.default, (list, tuple)):
        return ", ".join(f"“{item}”" for item in param.default)
    return str(param.default).lower()


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "–"


def _runbook(runbook: Runbook) -> tuple[str, ...]:
    when = "; ".join(dict.fromkeys(f"`{answer.klass}`" for answer in runbook.answers))
    by_hand = "a person" if runbook.start is not None else ""
    off = "" if runbook.enabled else " (switched off)"
    return (
        f"`{runbook.id}`{off}", runbook.code, ", ".join(part for part in (when, by_hand) if part) or "used by others",
        " → ".join(f"`{step.name}`" for step in runbook.steps),
    )  # fmt: skip


def time(seconds: float) -> str:
    """Write a time as a file would: the largest unit that gives a whole number."""
    for unit, length in sorted(SECONDS.items(), key=lambda item: -item[1]):
        if seconds >= length and abs(seconds / length - round(seconds / length)) < 1e-9:  # noqa: PLR2004 - rounding
            return f"{round(seconds / length)} {unit}"
    return f"{seconds:g} s"
