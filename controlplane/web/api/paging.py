"""Lists come in pages: a bounded number of items and the mark to ask for the next ones with.

A page goes on after an item that is known, not after a count, so that rows which
arrive meanwhile neither repeat nor hide anything.
"""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from ninja import Schema
from pydantic import Field, StringConstraints

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_ID = 2**63 - 1

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Id = Annotated[int, Field(ge=1, le=MAX_ID)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]

Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)


class Page(Schema, Generic[Item]):
    """Some items, and `next`: pass it as `after` to get the following ones; null at the end."""

    items: list[Item]
    next: str | int | None = None


def page(rows: QuerySet[Row], limit: int, mark: Callable[[Row], str | int]) -> dict[str, Any]:
    """Return the first `limit` of `rows` as a `Page`; `mark` gives what an item is found again by."""
    found = list(rows[: limit + 1])
    shown = found[:limit]
    return {"items": shown, "next": mark(shown[-1]) if len(found) > limit else None}
