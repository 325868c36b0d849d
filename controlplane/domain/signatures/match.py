"""Recognise a line of a log, at a cost that no line can raise.

A text is cut to its head and tail before anything else, then to a number of lines of
bounded length. Literals are looked for first; a pattern runs only on a short line that
holds all literals of its row, and none of them can backtrack far (a test reads them).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.domain.signatures.table import MACHINE, RANK, SCHEDULER, Signature, by_code, of_channel

HEAD_CHARS = 2048
TAIL_CHARS = 6144
MAX_LINES = 64
LINE_CHARS = 1024
SAID_CHARS = 160
KIND_CHARS = 80
LINE = " line"
"""In the name of an unknown line, after who said it; a code has no such word."""

_CODE = re.compile(r"\b(s?xid) ?\(([^)]{1,24})\):? ?([0-9]{1,6})\b")
_PID = re.compile(r"\bpid[= ]'?([0-9]{1,9})\b")
_VICTIM = re.compile(r"kill(?:ed)? process ([0-9]{1,9}),? ?\(([^)]{1,32})\)")
_TASK = re.compile(r"\btask=([^,]{1,32}),pid=([0-9]{1,9})\b")
_PROCESS = re.compile(r"([\w./-]{1,32})[\[:]([0-9]{1,9})\b")
_UNIT = re.compile(r"gpc ([0-9]{1,3}), tpc ([0-9]{1,3})")
_MILD = re.compile(r"\bnon-?fatal\b")
_DIGIT = re.compile(r"[0-9]")
_TROUBLE = re.compile(r"error|fail|fatal|panic(?!\w{0,32}=)|timed? ?out|not respond|abort")
"""An option of the kernel's command line, which every boot prints, is no panic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line and the signature that it carries, with the names that the line gives.

    `place` is the PCI address of a GPU or switch, or the name of a network port. `mild`
    means that the line calls itself not fatal. An unknown one has no signature, only `unknown`:
    its code, or who spoke and the words without those that hold a number.
    """

    said: str
    signature: Signature | None = None
    unknown: str = ""
    place: str = ""
    pid: int | None = None
    process: str = ""
    unit: str = ""
    mild: bool = False


def cut(text: str) -> str:
    """Give the head and the tail of a text, which is where the words that matter stand."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"


def lines(text: str) -> list[str]:
    """Give the last lines of a cut text, each at most `LINE_CHARS` long."""
    return [line[:LINE_CHARS] for line in cut(text).splitlines()[-MAX_LINES:] if line.strip()]


def channel_of(kind: str, source: str) -> str:
    """Say who speaks: `machine`, `rank`, `scheduler`, or "" for an event that carries no such text."""
    if kind in ("rank.log", "rank.exited"):
        return RANK
    if kind in ("scheduler.node", "scheduler.job") or (kind == "node.log" and source.startswith("slurm")):
        return SCHEDULER
    return MACHINE if kind == "node.log" else ""


def matches(channel: str, text: str) -> Iterator[Match]:
    """Give what the lines of `text` carry: at most one signature for each line."""
    for line in lines(text):
        found = match_line(channel, line)
        if found is not None:
            yield found


def match_line(channel: str, line: str) -> Match | None:
    """Recognise one line; a line that looks like trouble but is in no row is `unknown`."""
    line = line[:LINE_CHARS]
    low = line.lower()
    numbered = _CODE.search(low) if channel == MACHINE and "xid" in low else None
    if numbered is not None:
        return _numbered(numbered, line, low)
    for signature in of_channel(channel):
        if not any(all(anchor in low for anchor in choice) for choice in signature.anchors):
            continue
        where = signature.pattern.search(low) if signature.pattern is not None else None
        if signature.pattern is None or where is not None:
            return _worded(signature, line, low, "" if where is None else where.groupdict().get("port") or "")
    return Match(said=_said(line), unknown=_kind(channel, line)) if channel and _TROUBLE.search(low) else None


def pci(address: str) -> str:
    """Give a PCI address in one spelling: four digits of domain, without the function."""
    parts = address.lower().removeprefix("pci:").split(".")[0].split(":")
    bus = parts[-2:] if len(parts) > 1 else parts
    domain = parts[-3][-4:].rjust(4, "0") if len(parts) > 2 else "0000"  # noqa: PLR2004 - domain, bus and device
    return ":".join([domain, *bus])


def _numbered(found: re.Match[str], line: str, low: str) -> Match:
    code = f"{found[1]} {int(found[3])}"
    signature = by_code().get(code)
    pid, process = _who(low)
    unit = _UNIT.search(low)
    return Match(
        said=_said(line),
        signature=signature,
        unknown="" if signature else code,
        place=pci(found[2]),
        pid=pid,
        process=process,
        unit=f"{unit[1]}/{unit[2]}" if unit else "",
        mild=_MILD.search(low) is not None,
    )


def _worded(signature: Signature, line: str, low: str, port: str) -> Match:
    pid, process = _who(low)
    place = port or _bus(low) if signature.entity in ("gpu", "port") else ""
    mild = _MILD.search(low) is not None
    return Match(said=_said(line), signature=signature, place=place, pid=pid, process=process, mild=mild)


def _bus(low: str) -> str:
    found = re.search(r"\b((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?\b", low)
    return pci(found[1]) if found else ""


def _who(low: str) -> tuple[int | None, str]:
    """Give the process that a line names: its number and, where told, its name."""
    if victim := _VICTIM.search(low):
        return int(victim[1]), victim[2]
    if task := _TASK.search(low):
        return int(task[2]), task[1]
    if named := _PID.search(low):
        return int(named[1]), ""
    if " segfault at" in low or "blocked for more than" in low:
        process = _PROCESS.search(low)
        return (int(process[2]), process[1]) if process else (None, "")
    return None, ""


def _kind(channel: str, line: str) -> str:
    """Name a line by its words, so that one that differs in numbers alone is the same."""
    words = " ".join("#" if _DIGIT.search(word) else word for word in _said(line).split())
    return f"{channel}{LINE}: {words[:KIND_CHARS]}"


def _said(line: str) -> str:
    """Shorten a line for people; what a screen would not show, or show elsewhere, becomes a gap."""
    shown = line if line.isprintable() else "".join(sign if sign.isprintable() else " " for sign in line)
    words = " ".join(shown.split())
    return words if len(words) <= SAID_CHARS else f"{words[: SAID_CHARS - 1].rstrip()}…"
