"""Statements that are written once: what every step of every execution asks and writes.

Django composes the text of a query anew each time, which costs a worker ten times what
the question itself does, and PostgreSQL plans it anew. What is asked hundreds of times
a second is therefore plain SQL under a cursor that keeps its plans; the rows become the
models that everybody else knows.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import psycopg
from django.db import connection, models
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

Row = tuple[Any, ...]
Values = Sequence[Any]


def planned() -> CursorWrapper:
    """Return a cursor whose statements are planned once for each connection; their values travel apart."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    kind = _Logged if connection.queries_logged else CursorWrapper
    return kind(psycopg.Cursor(connection.connection), connection)


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
    return ", ".join(f'{table}."{column}"' for column, _, _ in _shape(model))


def source(model: type[models.Model], table: str) -> str:
    """Return the table of a model for a FROM, under the name `table`."""
    return f'"{model._meta.db_table}" AS {table}'  # noqa: SLF001 - Django documents it


def parted(row: Row, *kinds: type[models.Model]) -> list[Any]:
    """Cut a row of the `columns` of several models into one model each; None where an outer join found none."""
    made: list[Any] = []
    for kind in kinds:
        width = len(_shape(kind))
        made.append(_made(kind, row[:width]))
        row = row[width:]
    return made


def _made(kind: type[models.Model], values: Row) -> models.Model | None:
    if all(value is None for value in values):
        return None
    shape = _shape(kind)
    read = [decode(value) if decode else value for (_, _, decode), value in zip(shape, values, strict=True)]
    return kind.from_db(connection.alias, [name for _, name, _ in shape], read)


@cache
def _shape(kind: Any) -> list[tuple[str, str, Callable[[Any], Any] | None]]:
    """Return column, attribute, and what makes the value of what the database sends: JSON comes as text."""
    return [(field.column, field.attname, _decoder(field)) for field in kind._meta.concrete_fields]  # noqa: SLF001


def _decoder(field: Any) -> Callable[[Any], Any] | None:
    convert = getattr(field, "from_db_value", None)
    return None if convert is None else lambda value: convert(value, None, connection)
