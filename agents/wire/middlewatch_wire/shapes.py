"""The small types that every kind's `data` is made of, each with its bound."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from middlewatch_wire.limits import MAX_AT_MS, MAX_INT, MAX_INT4, MAX_ITEMS, MAX_NAME, MAX_STRING, MIN_INT

Int = Annotated[int, Meta(ge=MIN_INT, le=MAX_INT)]
Number = Annotated[int, Meta(ge=MIN_INT, le=MAX_INT)] | float | Literal["nan", "inf", "-inf"]
Text = Annotated[str, Meta(max_length=MAX_STRING)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Time = Annotated[int, Meta(ge=0, le=MAX_AT_MS)]
Rank = Annotated[int, Meta(ge=0, le=MAX_INT4)]
Texts = Annotated[list[Text], Meta(max_length=MAX_ITEMS)]
Names = Annotated[list[Name], Meta(max_length=MAX_ITEMS)]
Ranks = Annotated[list[Rank], Meta(max_length=MAX_ITEMS)]
Free = Annotated[dict[str, Any], Meta(max_length=MAX_ITEMS)]


class Data(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of every kind's `data`."""


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of what is nested inside `data`."""
