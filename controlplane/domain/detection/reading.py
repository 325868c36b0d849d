"""Read single values out of an event's data, which came from outside.

A value of the wrong type counts as not measured; nothing here raises, because one
strange field must not cost the rest of the event.
"""

import math
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 300
MAX_INT = 2**63 - 1


def integer(data: Mapping[str, Any], name: str) -> int | None:
    """Give a whole number of at most 63 bits, or None."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value) if abs(value) <= MAX_INT else None


def number(data: Mapping[str, Any], name: str) -> float | None:
    """Give a finite number, or None (also for the wire's "nan" and "inf")."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def text(data: Mapping[str, Any], name: str) -> str:
    """Give a string of bounded length, "" when there is none."""
    value = data.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def names(data: Mapping[str, Any], name: str, limit: int) -> list[str]:
    """Give a list of strings, at most `limit` of them."""
    value = data.get(name)
    if not isinstance(value, (list, tuple)):
        return []
    return [item[:MAX_TEXT] for item in value[:limit] if isinstance(item, str)]


def integers(data: Mapping[str, Any], name: str, limit: int) -> list[int]:
    """Give a list of whole numbers, at most `limit` of them."""
    value = data.get(name)
    if not isinstance(value, (list, tuple)):
        return []
    return [item for item in value[:limit] if isinstance(item, int) and not isinstance(item, bool)]


def mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Give a mapping, empty when there is none."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
