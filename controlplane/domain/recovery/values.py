"""Read single values of a runbook file: bounded, plain, and told with their line when they are wrong."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import Formatter

from controlplane.domain.recovery.actions import Kind, Param
from controlplane.domain.recovery.document import Fields, Items, Leaf, Problem, Tree

MAX_TEXT = 500
MAX_TEXTS = 32
MAX_LIMIT_S = 90 * 86_400.0
MAX_COUNT = 1e15

NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,15}")
STEP_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
CODE = re.compile(r"[A-Z]{1,4}-\d{1,3}")
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|min|h|d)")
SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class BadError(Exception):
    """A value cannot be used; the problem says where and why."""

    def __init__(self, tree: Tree, name: str, why: str) -> None:
        """Keep the line of the value, its name and the reason."""
        super().__init__(why)
        self.problem = Problem(tree.line, name, why)


def listed(names: Iterable[str]) -> str:
    """Give names in order, for a person."""
    return ", ".join(sorted(names))


def fields(tree: Tree, name: str) -> Fields:
    """Read a mapping."""
    if not isinstance(tree, Fields):
        raise BadError(tree, name, "must be a mapping of names to values")
    return tree


def items(tree: Tree, name: str, most: int) -> tuple[Tree, ...]:
    """Read a list of at most `most` values."""
    if not isinstance(tree, Items):
        raise BadError(tree, name, "must be a list")
    if len(tree.items) > most:
        raise BadError(tree, name, f"has {len(tree.items)} items; {most} are allowed")
    return tree.items


def need(given: Fields, name: str, where: str = "") -> Tree:
    """Give the value of a field that must be there."""
    if name not in given.fields:
        raise BadError(given, f"{where}.{name}" if where else name, "is missing")
    return given.fields[name]


def text(tree: Tree, name: str, most: int = MAX_TEXT) -> str:
    """Read printable words, with single spaces between them."""
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, str) or not value.strip():
        raise BadError(tree, name, "must be a text")
    words = " ".join(value.split())
    if len(words) > most:
        raise BadError(tree, name, f"has {len(words)} characters; {most} are allowed")
    if not words.isprintable():
        raise BadError(tree, name, "has characters that cannot be shown")
    return words


def texts(tree: Tree | None, name: str) -> Iterator[str]:
    """Read a list of texts; none where the field is not there."""
    if tree is not None:
        yield from (text(item, f"{name}[{place}]") for place, item in enumerate(items(tree, name, MAX_TEXTS)))


def template(tree: Tree, name: str) -> str:
    """Read a text whose placeholders are plain names: no attribute, no index, no format tricks."""
    words = text(tree, name)
    try:
        parts = list(Formatter().parse(words))
    except ValueError as error:
        raise BadError(tree, name, f"cannot be filled: {error}") from error
    for _, place, spec, conversion in parts:
        if place is not None and (not STEP_NAME.fullmatch(place) or spec or conversion):
            raise BadError(tree, name, f"{{{place}}} is no plain placeholder such as {{step}}")
    return words


def matching(tree: Tree, name: str, pattern: re.Pattern[str], meant: str) -> str:
    """Read a text of a certain form."""
    value = text(tree, name, 100)
    if not pattern.fullmatch(value):
        raise BadError(tree, name, f"must be {meant}, not “{value}”")
    return value


def choice(tree: Tree, name: str, choices: Sequence[str]) -> str:
    """Read one of some words."""
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, str) or value not in choices:
        raise BadError(tree, name, f"must be one of {', '.join(choices)}")
    return value


def flag(tree: Tree, name: str) -> bool:
    """Read true or false."""
    value = tree.value if isinstance(tree, Leaf) else None
    if not isinstance(value, bool):
        raise BadError(tree, name, "must be true or false")
    return value


def number(tree: Tree, name: str, least: float, most: float) -> float:
    """Read a number between two others."""
    value = tree.value if isinstance(tree, Leaf) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise BadError(tree, name, f"must be a number from {least:.15g} to {most:.15g}")
    return value


def count(tree: Tree, name: str, least: float, most: float) -> int:
    """Read a whole number between two others."""
    value = number(tree, name, least, most)
    if not isinstance(value, int):
        raise BadError(tree, name, "must be a whole number")
    return value


def duration(tree: Tree, name: str, least: float = 0.001, most: float = MAX_LIMIT_S) -> float:
    """Read a time with its unit, in seconds."""
    value = tree.value if isinstance(tree, Leaf) else None
    found = DURATION.fullmatch(value) if isinstance(value, str) else None
    seconds = float(found[1]) * SECONDS[found[2]] if found else -1.0
    if not least <= seconds <= most:
        raise BadError(tree, name, f"must be a time such as 30 s, 5 min or 2 h, from {least:g} s to {most:g} s")
    return seconds


def argument(tree: Tree, name: str, param: Param) -> object:
    """Read the argument of an action."""
    return _READERS[param.kind](tree, name, param)


_READERS: Mapping[Kind, Callable[[Tree, str, Param], object]] = {
    Kind.DURATION: lambda tree, name, param: duration(
        tree, name, max(0.001, param.least), min(MAX_LIMIT_S, param.most)
    ),
    Kind.COUNT: lambda tree, name, param: count(tree, name, param.least, min(param.most, MAX_COUNT)),
    Kind.NUMBER: lambda tree, name, param: number(tree, name, param.least, param.most),
    Kind.CHOICE: lambda tree, name, param: choice(tree, name, param.choices),
    Kind.FLAG: lambda tree, name, _: flag(tree, name),
    Kind.TEXT: lambda tree, name, _: template(tree, name),
    Kind.TEXTS: lambda tree, name, _: list(texts(tree, name)),
}
