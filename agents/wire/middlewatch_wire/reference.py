"""Write the reference of the wire format from the code, so that it cannot be wrong.

`python -m middlewatch_wire.reference docs/wire.md` renews the parts of the page
that stand between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

import re
import sys
from pathlib import Path
from typing import Any

from msgspec import inspect

from middlewatch_wire import limits
from middlewatch_wire.commands import COMMANDS
from middlewatch_wire.kinds import KINDS

_SIMPLE: dict[Any, str] = {
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.AnyType: "anything",
}


def kinds() -> str:
    """Return a table of each event kind: what it says and its fields."""
    return _sections(KINDS)


def commands() -> str:
    """Return a table of each command's arguments."""
    return _sections(COMMANDS)


def bounds() -> str:
    """Return a table of every limit."""
    source = Path(limits.__file__).read_text()
    rows = re.findall(r'^(MAX_\w+) = .*\n"""(.*)"""', source, re.MULTILINE)
    lines = [f"| {getattr(limits, name)} | {meaning} |" for name, meaning in rows]
    return "\n".join(["| at most | of what |", "|---|---|", *lines])


def renew(page: str) -> str:
    """Return the page with its generated parts written anew."""
    for name, write in (("kinds", kinds), ("commands", commands), ("limits", bounds)):
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}\n{write()}\n\n{end}{after}"
    return page


def _sections(types: dict[str, Any]) -> str:
    sections = []
    for name, data in types.items():
        shape: Any = inspect.type_info(data)
        rows = [
            f"| `{field.name}`{'' if not field.required else ' (needed)'} | {_say(field.type)} |"
            for field in shape.fields
        ]
        sections.append("\n".join([f"### `{name}`", "", data.__doc__, "", "| field | value |", "|---|---|", *rows]))
    return "\n\n".join(sections)


def _say(shape: Any) -> str:
    if isinstance(shape, inspect.UnionType):
        return _say_union(shape)
    if isinstance(shape, inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in shape.values)
    if isinstance(shape, inspect.ListType):
        return f"list of {_say(shape.item_type)}"
    if isinstance(shape, inspect.DictType):
        return f"object, each value {_say(shape.value_type)}"
    if isinstance(shape, inspect.StructType):
        return "{" + ", ".join(f"`{field.name}`" for field in shape.fields) + "}"
    return _SIMPLE[type(shape)]


def _say_union(shape: inspect.UnionType) -> str:
    parts = [part for part in shape.types if not isinstance(part, inspect.NoneType)]
    if any(isinstance(part, inspect.LiteralType) for part in parts) and len(parts) > 1:
        return "number"
    return " or ".join(_say(part) for part in parts)


if __name__ == "__main__":
    _page = Path(sys.argv[1])
    _page.write_text(renew(_page.read_text()))
