"""Read torch's Flight Recorder for what a comparison of ranks needs: the last collective of each group.

Under gloo `state` is always `scheduled` and the group table is broken, so
`retired` and the group of each entry are what counts.
"""

from typing import Any

import msgspec

MAX_GROUPS = 32
MAX_SIZES = 64
MAX_DIMENSIONS = 16
MAX_TEXT = 200
DEFAULT_GROUP = "default_pg"


class _Entry(msgspec.Struct, gc=False):
    collective_seq_id: int
    process_group: list[str]
    profiling_name: str = ""
    input_sizes: list[list[int]] = []
    state: str = ""
    retired: bool = False
    is_p2p: bool = False


class _Recording(msgspec.Struct):
    entries: list[_Entry] = []


_decoder = msgspec.json.Decoder(_Recording)


def last_collectives(raw: bytes, rank: int) -> list[dict[str, Any]]:
    """The data of one `rank.collective` event per group; nothing for what is no recording."""
    try:
        entries = _decoder.decode(raw).entries
    except (msgspec.DecodeError, RecursionError):
        return []
    last: dict[str, _Entry] = {}
    for entry in entries:
        name = _group(entry)
        known = last.get(name)
        if not entry.is_p2p and (known is None or entry.collective_seq_id >= known.collective_seq_id):
            last[name] = entry
    return [_collective(name, entry, rank) for name, entry in sorted(last.items())[:MAX_GROUPS]]


def _group(entry: _Entry) -> str:
    name, described = (*entry.process_group, "", "")[:2]
    return (DEFAULT_GROUP if described == DEFAULT_GROUP else f"group {name}")[:MAX_TEXT]


def _collective(group: str, entry: _Entry, rank: int) -> dict[str, Any]:
    return {
        "group": group,
        "seq": entry.collective_seq_id,
        "op": entry.profiling_name.rpartition(":")[2][:MAX_TEXT],
        "state": "completed" if entry.retired else "waiting",
        "sizes": [size[:MAX_DIMENSIONS] for size in entry.input_sizes[:MAX_SIZES]],
        "present": [rank],
    }
