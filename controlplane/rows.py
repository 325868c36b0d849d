"""Statements that are written once: what every step of every execution asks and writes.

Django composes the text of a query anew each time, which costs a worker ten times what
the question itself does, and PostgreSQL plans it anew. What is asked hundreds of times
a second is therefore plain SQL under a cursor that keeps its plans; the rows become the
models that everybody else knows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

Row = tuple[Any, ...]
Values = Sequence[Any]


def planned() -> CursorWrapper:
    """Return a cursor whose statements are planned once for each connection; their values travel apart."""
    known = connections[DEFAULT_DB_ALIAS]  # looked up once: each look through Django's proxy costs
    known.close_if_health_check_failed()
    known.ensure_connection()
    kind = _Logged if known.queries_logged else CursorWrapper
    return kind(psycopg.Cursor(known.connection), known)


class _Logged(CursorDebugWrapper):
    """Puts a statement into Django's log of queries as it is written, for its values travel apart."""

    def execute(self, sql: Any, params: Any = None) -> Any:
        with self.debug_sql(sql, params):
            return super(CursorDebugWrapper, self).execute(sql, params)


def ask(statement: str, values: Values = ()) -> list[Row]:
    """Return the rows that a statement reads."""
    with planned() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def columns(model: type[models.Model], table: str) -> str:
    """Return the columns of a model for a SELECT, `table` being its name in the statement."""
    return ", ".join(f'{table}."{field.column}"' for field in model._meta.concrete_fields)  # noqa: SLF001 - documented


def source(model: type[models.Model], table: str) -> str:
    """Return the table of a model for a FROM, under the name `table`."""
    return f'"{model._meta.db_table}" AS {table}'  # noqa: SLF001 - Django documents it


def parted(row: Row, *kinds: type[models.Model]) -> list[Any]:
    """Cut a row of the `columns` of several models into one model each; None where an outer join found none."""
    made: list[Any] = []
    begins = 0
    for kind in kinds:
        shape = _shape(kind)
        ends = begins + len(shape.names)
        made.append(_made(kind, shape, list(row[begins:ends])))
        begins = ends
    return made


@dataclass(frozen=True, slots=True)
class _Shape:
    """How rows of a model are read: its attributes, the place of its key, and what has to be decoded (JSON is text)."""

    names: tuple[str, ...]
    key: int
    decoders: tuple[tuple[int, Callable[..., Any]], ...]


def _made(kind: type[models.Model], shape: _Shape, values: list[Any]) -> models.Model | None:
    if values[shape.key] is None:
        return None
    for place, decode in shape.decoders:
        values[place] = decode(values[place], None, None)
    return kind.from_db(DEFAULT_DB_ALIAS, shape.names, values)


@cache
def _shape(kind: Any) -> _Shape:
    fields = kind._meta.concrete_fields  # noqa: SLF001 - Django documents it
    decoders = ((place, getattr(field, "from_db_value", None)) for place, field in enumerate(fields))
    return _Shape(
        names=tuple(field.attname for field in fields),
        key=fields.index(kind._meta.pk),  # noqa: SLF001
        decoders=tuple((place, decode) for place, decode in decoders if decode is not None),
    )
