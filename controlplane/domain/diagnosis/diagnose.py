"""From findings to one verdict: what it is, who is suspected, and how sure we are.

Evidence adds up per entity as log-odds (methods 7), so every verdict can be read
line by line and argued with. A machine is acted on only when it is far ahead of
every other candidate; short of that the answer is to restart without excluding
anybody, because a wrong exclusion costs more than a second fault.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Evidence, Finding, Stage

ACT_SCORE = 4.0
ACT_MARGIN = 2.0
MAX_BLAMED = 8
MAX_CLEARED = 64
MAX_EVIDENCE = 64

CLASS_ORDER = (
    "correlated_loss",
    "identity_conflict",
    "gpu_fault",
    "node_lost",
    "crash_no_exit",
    "crash",
    "restore_stall",
    "hang",
    "telemetry_lost",
    "blind",
)
"""Which class an incident takes when several findings share it: the nearest to a cause first."""

SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """A candidate with its score and its distance to the best other candidate."""

    entity: str
    score: float
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict over the findings of one incident.

    `act_on` is the node to exclude, set only at score >= 4 with margin >= 2 and a
    confirmed finding. `evidence` is sorted by weight, strongest first. `fingerprint`
    names the kind of failure without rank, node and time.
    """

    klass: str
    title: str
    severity: str
    confirmed: bool
    cleared_up: bool
    blamed: tuple[Blame, ...]
    cleared: tuple[str, ...]
    act_on: str | None
    evidence: tuple[Evidence, ...]
    began: float
    root_cause: str
    fingerprint: str
    attempt: int | None


def diagnose(findings: Sequence[Finding], *, now: float, policy: RunPolicy) -> Diagnosis:
    """Weigh the findings of one incident; raise `ValueError` when there are none.

    Findings that cleared count only when nothing else is left. Evidence that lies in
    the future by more than the policy's delta is ignored (a skewed clock proves nothing).
    """
    live = [item for item in findings if item.stage is not Stage.CLEARED]
    lead = _lead(live or findings)
    evidence = _distinct(live or findings, now + policy.delta_s)
    scores = _scores(evidence)
    places = _places(findings)
    blamed = _blamed(scores, places)
    confirmed = any(item.stage is Stage.CONFIRMED for item in live)
    act_on = _act_on(blamed) if confirmed else None
    return Diagnosis(
        klass=lead.klass,
        title=lead.sentence or f"{lead.klass} of {lead.entity}",
        severity=_severity(live or findings),
        confirmed=confirmed,
        cleared_up=not live,
        blamed=blamed,
        cleared=tuple(sorted(entity for entity, score in scores.items() if score < 0)[:MAX_CLEARED]),
        act_on=act_on,
        evidence=evidence[:MAX_EVIDENCE],
        began=min(item.began for item in live or findings),
        root_cause=_root_cause(lead, blamed, act_on),
        fingerprint=f"{lead.klass}:{lead.facts.get('fingerprint', lead.detector)}",
        attempt=lead.attempt,
    )


def _lead(findings: Sequence[Finding]) -> Finding:
    if not findings:
        raise ValueError("nothing to diagnose")
    return min(findings, key=lambda item: (item.stage is Stage.SUSPECT, _rank(item.klass), item.began, item.key))


def _rank(klass: str) -> int:
    return CLASS_ORDER.index(klass) if klass in CLASS_ORDER else 0


def _severity(findings: Iterable[Finding]) -> str:
    return max(
        (item.severity for item in findings), key=lambda word: SEVERITIES.index(word) if word in SEVERITIES else 0
    )


def _distinct(findings: Sequence[Finding], latest: float) -> tuple[Evidence, ...]:
    lines = {(line.entity, line.text): line for item in findings for line in item.evidence if line.at <= latest}
    return tuple(sorted(lines.values(), key=lambda line: (-line.weight, line.at, line.entity, line.text)))


def _scores(evidence: Iterable[Evidence]) -> dict[str, float]:
    scores: dict[str, float] = defaultdict(float)
    for line in evidence:
        scores[line.entity] += line.weight
    return dict(scores)


def _places(findings: Iterable[Finding]) -> dict[str, str]:
    """Where each rank ran, so that a rank is no rival of its own node."""
    places: dict[str, str] = {}
    for item in findings:
        known: Mapping[str, Any] = item.facts.get("places", {})
        places.update({f"rank:{rank}": f"node:{node}" for rank, node in known.items()})
    return places


def _blamed(scores: Mapping[str, float], places: Mapping[str, str]) -> tuple[Blame, ...]:
    ahead = sorted(
        ((score, entity) for entity, score in scores.items() if score > 0), key=lambda pair: (-pair[0], pair[1])
    )
    return tuple(
        Blame(entity=entity, score=round(score, 2), margin=round(score - _rival(entity, scores, places), 2))
        for score, entity in ahead[:MAX_BLAMED]
    )


def _rival(entity: str, scores: Mapping[str, float], places: Mapping[str, str]) -> float:
    """Give the best score of anything that is not at the same place; 0 when there is nothing."""
    here = places.get(entity, entity)
    others = [score for other, score in scores.items() if other != entity and places.get(other, other) != here]
    return max([0.0, *others])


def _act_on(blamed: Sequence[Blame]) -> str | None:
    if not blamed:
        return None
    first = blamed[0]
    sure = first.score >= ACT_SCORE and first.margin >= ACT_MARGIN
    return first.entity.removeprefix("node:") if sure and first.entity.startswith("node:") else None


def _root_cause(lead: Finding, blamed: Sequence[Blame], act_on: str | None) -> str:
    told = str(lead.facts.get("cause", ""))
    if told:
        return told
    if act_on:
        return f"node {act_on}"
    if blamed:
        return f"unknown; {blamed[0].entity.replace(':', ' ')} is suspected"
    return "unknown"
