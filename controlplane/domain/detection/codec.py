"""Turn a machine's state into JSON types and back, exactly.

The state is plain dataclasses, so one small codec serves all of them. Fields that
hold their default are left out: most ranks are in good order most of the time, and
a snapshot is written about once a second. A field marked `MEMO` only saves work and is
never dumped: a machine that was restored does that work once more.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
MEMO = {"memo": True}
"""Metadata of a field that can be left out without changing anything."""


def dump(value: Any) -> Any:
    """Give `value` in JSON types; dataclasses become objects without their default fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: dump(held)
            for name, default in _defaults(type(value))
            if (held := getattr(value, name)) != default or default is MISSING
        }
    if isinstance(value, Mapping):
        return {str(key): dump(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(held) for held in value]
    return value


def load(kind: type[T], data: Mapping[str, Any]) -> T:
    """Make a dataclass of `kind` from what `dump` gave; unknown names are left out."""
    hints = _hints(cast("Any", kind))
    return kind(**{name: _load(hints[name], value) for name, value in data.items() if name in hints})


def _load(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if value is None or origin is None:
        return load(kind, value) if value is not None and isinstance(kind, type) and is_dataclass(kind) else value
    inner = get_args(kind)
    if origin in (Union, UnionType):
        return _load(next(part for part in inner if part is not type(None)), value)
    if origin is dict:
        return {_key(inner[0], key): _load(inner[1], held) for key, held in value.items()}
    if origin is list:
        return [_load(inner[0], held) for held in value]
    if origin is tuple:
        return tuple(_load(inner[0], held) for held in value)
    return value


def _key(kind: Any, key: str) -> Any:
    return int(key) if kind is int else key


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((item.name, _default(item)) for item in fields(kind) if not item.metadata.get("memo"))


def _default(item: Any) -> Any:
    if item.default is not MISSING:
        return item.default
    return item.default_factory() if item.default_factory is not MISSING else MISSING
