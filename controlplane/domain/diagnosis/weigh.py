"""Add evidence up per entity, as log-odds, and keep every step of the sum readable.

The additive scheme of methods 7: one line per kind and entity; what many ranks show
alike is discounted, since it identifies nobody; coming late counts against an entity
only beyond the bound of its clock; and the ledger speaks of repeat offenders, of
company kept and of suspicions that were refuted (methods 11.12, 11.14). Each correction is
a line of its own or stands in the words of the line that it changed.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.domain.findings import Evidence

ROOT_WEIGHT = 3.0
"""Evidence of at least this weight can be a first cause; lateness is counted from the first of it."""
CLOCK_BOUND_S = 1.0
LATE_S = 5.0
LATE_MOST = 3.0
OFFENDER = 1.5
REFUTED = -4.0
MAX_LINES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the ledger knows of entities beside the findings at hand.

    `offenders` failed within the last 14 days; `company` maps a node to what it earned
    by being present in every failing attempt and absent from the good ones
    (`company.company_kept`); `refuted` were left out and the same failure came again.
    """

    offenders: frozenset[str] = frozenset()
    company: Mapping[str, float] = field(default_factory=dict)
    refuted: frozenset[str] = frozenset()


NOTHING_KNOWN = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The lines as they counted, strongest first, and their sums."""

    lines: tuple[Evidence, ...]
    scores: Mapping[str, float]


def weigh(evidence: Iterable[Evidence], *, now: float, history: History = NOTHING_KNOWN) -> Weighed:
    """Weigh lines of evidence; their order and repetition change nothing.

    `now` is in seconds since the epoch: a line stamped later is as true as any other,
    but its clock is not, so it says nothing about who was first.
    """
    lines = _discounted(_once([_dated(line, now) for line in evidence][:MAX_LINES]))
    lines += _late(lines)
    lines += _known(lines, history, now)
    scores: dict[str, float] = defaultdict(float)
    for line in lines:
        scores[line.entity] += line.weight
    return Weighed(lines=tuple(sorted(lines, key=_strongest)), scores=dict(scores))


def _strongest(line: Evidence) -> tuple[float, float, str, str]:
    return -line.weight, line.at, line.entity, line.text


def _dated(line: Evidence, now: float) -> Evidence:
    return replace(line, at=now, bound_s=None) if line.at > now else line


def _once(lines: Sequence[Evidence]) -> list[Evidence]:
    """Keep of each kind and entity the line that counts most, the earliest of equals."""
    kept: dict[tuple[str, str], Evidence] = {}
    for line in sorted(lines, key=lambda line: (-abs(line.weight), line.at, line.text)):
        kept.setdefault((line.entity, line.kind or line.text), line)
    return list(kept.values())


def _discounted(lines: Sequence[Evidence]) -> list[Evidence]:
    """Divide a positive weight by log2(1 + entities that show the same kind)."""
    showing: dict[tuple[str, str], int] = defaultdict(int)
    for line in lines:
        showing[_sort(line)] += 1
    return [_shared(line, showing[_sort(line)]) for line in lines]


def _sort(line: Evidence) -> tuple[str, str]:
    """Ranks are counted beside ranks and nodes beside nodes; a line without a kind stands alone."""
    return line.entity.partition(":")[0], line.kind or f"{line.entity} {line.text}"


def _shared(line: Evidence, showing: int) -> Evidence:
    if showing < 2 or line.weight <= 0:  # noqa: PLR2004 - shared by two at least
        return line
    weight = line.weight / math.log2(1 + showing)
    text = f"{line.text} ({showing} show the same, so {weight:.2g} instead of {line.weight:g})"
    return replace(line, weight=weight, text=text)


def _late(lines: Sequence[Evidence]) -> list[Evidence]:
    """Count against an entity that it came after the first sign, beyond what the clocks may err."""
    first: dict[str, Evidence] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.weight >= ROOT_WEIGHT and line.bound_s is not None:
            first.setdefault(line.entity, line)
    if not first:
        return []
    root = min(first.values(), key=lambda line: line.at)
    found = [_lateness(line, root) for line in first.values()]
    return [line for line in found if line is not None]


def _lateness(line: Evidence, root: Evidence) -> Evidence | None:
    bound = max(CLOCK_BOUND_S, line.bound_s or 0.0) + (root.bound_s or 0.0)
    behind = line.at - root.at
    if behind <= bound:
        return None
    weight = -min(LATE_MOST, (behind - bound) / LATE_S)
    text = f"came {behind:.0f} s after the first sign, and the clocks differ by at most {bound:.0f} s"
    return Evidence(at=line.at, entity=line.entity, weight=weight, text=text, kind="lateness")


def _known(lines: Sequence[Evidence], history: History, now: float) -> list[Evidence]:
    """Let the ledger speak: a past alone makes nobody an offender today."""
    accused = {line.entity for line in lines if line.weight > 0}
    offenders = [
        Evidence(at=now, entity=entity, weight=OFFENDER, text="has failed before in the last 14 days", kind="repeat")
        for entity in sorted(history.offenders & accused)
    ]
    company = [
        Evidence(at=now, entity=entity, weight=weight, text=_company(weight), kind="company")
        for entity, weight in sorted(history.company.items())
    ]
    refuted = [
        Evidence(at=now, entity=entity, weight=REFUTED, text="the same failure came again without it", kind="refuted")
        for entity in sorted(history.refuted)
    ]
    return [*offenders, *company, *refuted]


def _company(weight: float) -> str:
    return f"was part of every attempt that failed and of none that trained ({weight:+.2g})"
