"""The table of signatures: what a line or a counter of a machine means (docs/signatures.md).

The rows live in `table.csv` beside this module, so that a change to what a code means
is one line in a review. The table is read once; a row that does not fit stops the
program at its start and not in the night.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MACHINE, RANK, SCHEDULER = "machine", "rank", "scheduler"

CHANNELS: Mapping[str, str] = {
    "xid": MACHINE,
    "sxid": MACHINE,
    "driver": MACHINE,
    "fabricmanager": MACHINE,
    "kernel": MACHINE,
    "network": MACHINE,
    "filesystem": MACHINE,
    "filesystem-rank": RANK,
    "nccl": RANK,
    "cuda": RANK,
    "python": RANK,
    "slurm": SCHEDULER,
    "health": "",
}
"""Where a source speaks. A program cannot write a driver's line into its own log and be believed."""

QUARANTINE_NOW, DRAIN_AT_SAVE, RESTART, COUNT, WATCH, HOLD, NONE = (
    "quarantine_now",
    "drain_at_save",
    "restart",
    "count",
    "watch",
    "hold",
    "none",
)
ACTIONS = (QUARANTINE_NOW, DRAIN_AT_SAVE, RESTART, COUNT, WATCH, HOLD, NONE)
ENTITIES = ("gpu", "node", "port", "rank", "storage", "network", "workload", "run", "platform")
SEVERITIES = ("info", "warning", "critical")
CODE = re.compile(r"(s?xid) ([0-9]{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One row: how it is recognised, whom it accuses, how much, and what it asks for.

    `anchors` are alternatives of literals that must all be in the lower-case line; `pattern`
    is tried only after them. `weight` is in log-odds (methods 7 and 11.1). `repeat` holds
    the words that docs/signatures.md explains (`gpu2`, `gpus2`, `unit`, `word`, `flap`, …).
    """

    id: str
    source: str
    match: str
    anchors: tuple[tuple[str, ...], ...]
    pattern: re.Pattern[str] | None
    klass: str
    entity: str
    severity: str
    weight: float
    action: str
    repeat: frozenset[str]
    gap_s: float
    sentence: str
    example: str
    reference: str

    @property
    def code(self) -> str:
        """Give `xid 79` or `sxid 20034`, "" for a row that is recognised by its words."""
        return self.match if CODE.fullmatch(self.match) else ""

    @property
    def counter(self) -> str:
        """Give the counter that speaks, "" for a row that is recognised in a line."""
        return self.match.removeprefix("counter ") if self.source == "health" else ""

    @property
    def name(self) -> str:
        """Give the sort of evidence without rank, node or time, as people say it."""
        return self.code or self.id.replace("-", " ")

    @property
    def acts(self) -> bool:
        """Say whether it condemns by itself, at once or at the next save."""
        return self.action in (QUARANTINE_NOW, DRAIN_AT_SAVE)


@cache
def table() -> tuple[Signature, ...]:
    """Give all signatures, highest claim first; raise `ValueError` naming a row that does not fit."""
    text = (files("controlplane.domain.signatures") / "table.csv").read_text(encoding="utf-8")
    return tuple(_signature(row) for row in csv.DictReader(text.splitlines()))


@cache
def by_id() -> Mapping[str, Signature]:
    """Give the signatures by their id."""
    return {signature.id: signature for signature in table()}


@cache
def by_code() -> Mapping[str, Signature]:
    """Give the signatures of numbered codes by `xid 79` and the like."""
    return {signature.code: signature for signature in table() if signature.code}


@cache
def of_channel(channel: str) -> tuple[Signature, ...]:
    """Give the signatures that are recognised by words where `channel` speaks, highest claim first."""
    return tuple(_worded(channel))


def _worded(channel: str) -> Iterator[Signature]:
    return (signature for signature in table() if signature.anchors and CHANNELS[signature.source] == channel)


def _signature(row: Mapping[str, str]) -> Signature:
    words = row["repeat"].split()
    made = Signature(
        id=row["id"],
        source=row["source"],
        match=row["match"],
        anchors=_anchors(row["source"], row["match"]),
        pattern=re.compile(row["pattern"]) if row["pattern"] else None,
        klass=row["class"],
        entity=row["entity"],
        severity=row["severity"],
        weight=float(row["weight"]),
        action=row["action"],
        repeat=frozenset(word for word in words if not word.startswith("gap")),
        gap_s=next((float(word[3:]) for word in words if word.startswith("gap")), 60.0),
        sentence=row["sentence"],
        example=row["example"],
        reference=row["reference"],
    )
    if made.source not in CHANNELS or made.action not in ACTIONS or made.entity not in ENTITIES:
        raise ValueError(f"signature {made.id}: unknown source, action or entity")
    if made.severity not in SEVERITIES:
        raise ValueError(f"signature {made.id}: unknown severity")
    return made


def _anchors(source: str, match: str) -> tuple[tuple[str, ...], ...]:
    if source in ("xid", "sxid", "health"):
        return ()
    return tuple(tuple(choice.split("&")) for choice in match.split("|"))
