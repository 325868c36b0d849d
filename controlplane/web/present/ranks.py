"""The ranks of a run as a table, the slowest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number

MAX_RANKS = 512
NAMED = 3


MAX_CELLS = 4096
CELL, GAP, PER_ROW = 14.0, 3.0, 64
SLOW, SLOWER = 1.02, 1.05
"""A rank this many times above the median computes longer than its peers (methods 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One rank of the heat strip at (x, y); `heat` is even, slow, slower or unknown."""

    x: float
    y: float
    heat: str
    title: str


def heat_cells(view: Any) -> list[HeatCell]:
    """Place the ranks of a `RunView` in their own order, each coloured by its compute time against the median."""
    ranks = sorted(view.ranks, key=lambda one: _value(one, "rank") or 0)[:MAX_CELLS]
    known = [value for one in ranks if (value := _value(one, "compute_ms"))]
    if not known:
        return []
    usual = median(known)
    return [_cell(place, one, usual) for place, one in enumerate(ranks)]


def _cell(place: int, one: Any, usual: float) -> HeatCell:
    compute, rank = _value(one, "compute_ms"), _value(one, "rank")
    ratio = compute / usual if compute and usual else None
    heat = "unknown" if ratio is None else "slower" if ratio >= SLOWER else "slow" if ratio >= SLOW else "even"
    told = "no window yet" if ratio is None else f"{100 * (ratio - 1):+.1f} %"
    where = _value(one, "node") or "unknown node"
    x, y = (place % PER_ROW) * (CELL + GAP), (place // PER_ROW) * (CELL + GAP)
    return HeatCell(x=x, y=y, heat=heat, title=f"rank {rank} on {where}: {told}")


def heat_words(cells: Sequence[HeatCell]) -> str:
    """Say the heat strip in one sentence, with its full stop."""
    out = [cell for cell in cells if cell.heat in ("slow", "slower")]
    if not out:
        return "No rank computes longer than its peers."
    named = "; ".join(cell.title for cell in out[:NAMED])
    verb = "computes" if len(out) == 1 else "compute"
    more = f" and {len(out) - NAMED} more" if len(out) > NAMED else ""
    return f"{len(out)} of {len(cells)} ranks {verb} longer than the median: {named}{more}."


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLine:
    """One rank; `heat` is its compute time as a share of the slowest one's, in percent."""

    rank: int
    node: str
    badge: Badge
    step: str
    phase: str
    compute: str
    wait: str
    heat: int


def rank_lines(view: Any) -> list[RankLine]:
    """Present the ranks of a `RunView`, the one that computes longest, and so makes the others wait, first."""
    ranks = sorted(view.ranks, key=lambda one: (-(_value(one, "compute_ms") or 0.0), _value(one, "rank") or 0))
    ranks = ranks[:MAX_RANKS]
    slowest = max((_value(one, "compute_ms") or 0.0 for one in ranks), default=0.0)
    return [_line(one, slowest) for one in ranks]


def _line(one: Any, slowest: float) -> RankLine:
    compute, wait, step = _value(one, "compute_ms"), _value(one, "wait_ms"), _value(one, "last_step")
    return RankLine(
        rank=_value(one, "rank"),
        node=str(_value(one, "node") or ""),
        badge=badges.of(badges.RANK, str(_value(one, "state") or "unknown")),
        step=number(step),
        phase=str(_value(one, "phase") or "–"),
        compute=f"{compute:.0f} ms" if compute is not None else "–",
        wait=f"{wait:.0f} ms" if wait is not None else "–",
        heat=round(100 * compute / slowest) if compute and slowest else 0,
    )


def _value(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, dict) else getattr(one, name, None)
