"""What detectors say: findings, each with the evidence it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """How sure a finding is. A suspicion has no side effect on the run."""

    SUSPECT = "suspect"
    CONFIRMED = "confirmed"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line of evidence: `weight` is in log-odds for `entity` (methods 7).

    `kind` names the sort of evidence without rank, node or time ("xid 79", "time-out"):
    one entity counts each kind once, and what many ranks show alike is discounted.
    `bound_s` is how far `at` may be from the truth; None means that the clock is unknown
    and `at` says nothing about who was first.
    """

    at: float
    entity: str
    weight: float
    text: str
    kind: str = ""
    bound_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A detector's judgement. The same `key` again updates the earlier one.

    `entity` is one of wire.md's: `node:NAME`, `rank:N`, `run`, `platform`, …
    `began` is when the trouble began (last progress plus one expected step), `at`
    when it was found; both in seconds since the epoch. `rule` is the signature that
    spoke, if one did; `mode` is how far the run lets this rule go (domain.detection.modes).
    """

    key: str
    detector: str
    klass: str
    stage: Stage
    entity: str
    began: float
    at: float
    run: str | None = None
    attempt: int | None = None
    severity: str = "critical"
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    rule: str = ""
    mode: str = "act"
