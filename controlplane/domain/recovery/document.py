"""A file as a tree of values that know their lines, so that a mistake is told where it stands."""

from dataclasses import dataclass

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong with a file: its line (from 1), the field and the reason."""

    line: int
    field: str
    why: str

    def __str__(self) -> str:
        """Return one line for a person."""
        return f"line {self.line}: {f'{self.field}: ' if self.field else ''}{self.why}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value."""

    value: Scalar
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple["Tree", ...]
    line: int


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping; its keys are unique."""

    fields: dict[str, "Tree"]
    line: int


Tree = Leaf | Items | Fields


@dataclass(frozen=True, slots=True)
class Document:
    """One file: where it came from, its text and its tree."""

    source: str
    text: str
    root: Tree
