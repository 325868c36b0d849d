"""Slurm's short way to write the names of many nodes: `n[001-128,130],m1`."""

import re
from collections.abc import Iterator

MAX_NODES = 16_384
_GROUP = re.compile(r"\[([^\]]*)\]")
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")


def expand(text: str) -> list[str]:
    """Give every name. Raises ValueError for what is no list of hosts, or too long a one."""
    parts, names = _PART.findall(text), list[str]()
    if ",".join(parts) != text:
        raise ValueError(f"{text[:80]!r} is not a list of hosts")
    for part in parts:
        for name in _expand_one(part):
            names.append(name)
            if len(names) > MAX_NODES:
                raise ValueError(f"{text[:80]!r} names more than {MAX_NODES} nodes")
    return names


def _expand_one(part: str) -> Iterator[str]:
    group = _GROUP.search(part)
    if group is None:
        yield part
        return
    before, after = part[: group.start()], part[group.end() :]
    for number in _numbers(group[1]):
        for rest in _expand_one(after) if after else [""]:
            yield f"{before}{number}{rest}"


def _numbers(ranges: str) -> Iterator[str]:
    """Give the numbers of `1-3,07`; a range keeps the width of its first number."""
    for piece in ranges.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"{piece!r} is not a range of numbers")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))
