"""The ranks of a run as a table, the slowest first."""

from dataclasses import dataclass
from typing import Any

from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number

MAX_RANKS = 512


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
