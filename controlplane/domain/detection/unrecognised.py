"""Count what looks like trouble and is in no row of the table: for people to read, never acted on.

A code counts under its number, a line under its words (numbers left out), and each of the two
has room for so many kinds: a program that prints ever new lines hides no code of a driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.detection import codec
from controlplane.domain.detection.hardware_state import Unknown
from controlplane.domain.signals import Signal
from controlplane.domain.signatures.match import LINE, Match

MAX_KINDS = 32
"""So many kinds of codes, and so many of lines; what comes beyond is counted together."""
MAX_NODES = 32
DAY_S = 86_400.0
OTHER_CODES, OTHER_LINES = "other codes", f"other{LINE}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecognised:
    """One kind: how often it came, from how many nodes (MAX_NODES: or more), and its newest text and node.

    Times are seconds since the epoch, by the control plane's clock of receipt.
    """

    name: str
    said: str
    count: int
    nodes: int
    node: str
    first_at: float
    last_at: float


def count(unknown: dict[str, Unknown], match: Match, signal: Signal) -> None:
    """Count what no row knows, once for each moment of one sender's clock."""
    seen = unknown.setdefault(_room(unknown, match.unknown, signal.received), Unknown(first_at=signal.received))
    if signal.at_ms == seen.last_ms and signal.node == seen.node and match.said == seen.said:
        return
    seen.count += 1
    seen.first_at = min(seen.first_at or signal.received, signal.received)
    if signal.node not in seen.nodes and len(seen.nodes) < MAX_NODES:
        seen.nodes.append(signal.node)
    if signal.received >= seen.last_at:
        seen.node, seen.last_at, seen.last_ms, seen.said = signal.node, signal.received, signal.at_ms, match.said


def _room(unknown: dict[str, Unknown], name: str, now: float) -> str:
    """Give the kind under which `name` is counted; what was not seen for a day makes room."""
    if name in unknown:
        return name
    alike = [known for known in unknown if (LINE in known) == (LINE in name)]
    if len(alike) < MAX_KINDS:
        return name
    oldest = min(alike, key=lambda known: unknown[known].last_at)
    if now - unknown[oldest].last_at <= DAY_S:
        return OTHER_LINES if LINE in name else OTHER_CODES
    del unknown[oldest]
    return name


def listed(unknown: Mapping[str, Unknown]) -> list[Unrecognised]:
    """Give every kind, the one that came last first."""
    found = [
        Unrecognised(
            name=name,
            said=seen.said,
            count=seen.count,
            nodes=len(seen.nodes),
            node=seen.node,
            first_at=seen.first_at or seen.last_at,
            last_at=seen.last_at,
        )
        for name, seen in unknown.items()
    ]
    return sorted(found, key=lambda one: (-one.last_at, one.name))


def of_snapshot(held: Mapping[str, Any], node: str = "") -> list[Unrecognised]:
    """Give the same from what a snapshot holds at `PATH`; with `node` the kinds that are known to come from there."""
    read = {name: codec.load(Unknown, seen) for name, seen in held.items()}
    return listed({name: seen for name, seen in read.items() if not node or node in (seen.node, *seen.nodes)})


PATH = ("state", "hardware", "unknown")
"""Where the kinds stand in the snapshots of both reducers, so that a page need not restore one."""
