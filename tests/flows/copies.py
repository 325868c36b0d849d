"""Worlds that are made once in each process and copied from then on.

A run that trains costs a thousand queries to bring about, and most tests begin with
one. What its making left in the tables is a few dozen rows: they are kept as text, and
put back with the numbers that they had, which the sequences have long passed.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

from django.db import connection, transaction

TABLES = """
    SELECT quote_ident(relname), string_agg(quote_ident(attname), ', ' ORDER BY attnum)
    FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    WHERE nspname = 'public' AND relkind IN ('r', 'p') AND NOT relispartition GROUP BY relname ORDER BY relname
"""

Rows = dict[str, bytes]
W = TypeVar("W")

_kept: dict[str, tuple[object, Rows]] = {}


def once(key: str, make: Callable[[], W]) -> W:
    """Give what `make` gives, with all rows that it writes; it is called once for each key.

    It may add rows to empty tables only.
    """
    if key not in _kept:
        before = _read()
        made = make()
        rows = _read()
        assert {table: rows[table] for table in before} == before, "it changed rows that were there before"
        _kept[key] = deepcopy(made), {table: text for table, text in rows.items() if table not in before}
        return made
    made, rows = _kept[key]
    _write(rows)
    return deepcopy(made)


def _read() -> Rows:
    """Return the rows of every table that holds any, by the words that COPY needs."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        names = [(table, columns) for table, columns in cursor.fetchall()]
        found = {}
        for table, columns in names:
            with cursor.copy(f"COPY (SELECT {columns} FROM {table} ORDER BY 1) TO STDOUT") as copy:  # noqa: S608
                found[f"{table} ({columns})"] = b"".join(copy)
    return {table: text for table, text in found.items() if text}


def _write(rows: Rows) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for table, text in rows.items():
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                copy.write(text)
