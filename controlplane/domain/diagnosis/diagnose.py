"""From findings to one verdict: what it is, who is suspected, and how sure we are.

Evidence adds up per entity as log-odds (methods 7), so every verdict can be read
line by line and argued with. A machine is acted on only when it is far ahead of
every other candidate; short of that the answer is to restart without excluding
anybody, because a wrong exclusion costs more than a second fault.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.chronicle.words import place
from controlplane.domain.detection.modes import Mode
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.blame import ACT_MARGIN, ACT_SCORE, Blame, Verdict, judge
from controlplane.domain.diagnosis.clearing import clears
from controlplane.domain.diagnosis.inhibit import held, lead, standing, symptom
from controlplane.domain.diagnosis.weigh import NOTHING_KNOWN, History, weigh
from controlplane.domain.findings import Evidence, Finding, Stage

__all__ = ["ACT_MARGIN", "ACT_SCORE", "Blame", "Diagnosis", "diagnose"]

MAX_CLEARED = 64
MAX_EVIDENCE = 64
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict over the findings of one incident.

    `act_on` is the node to exclude, set only at score >= 4 with margin >= 2 and a
    confirmed finding; `exclude` are all nodes to leave out, a lost group among them.
    `answer` is the kind of the cause: node, gpu, network, workload, data, storage,
    platform or unknown. `evidence` shows the lines as they counted, strongest first.
    `fingerprint` names the kind of failure without rank, node and time. `stands` are the
    classes of the findings that hold now: `klass` keeps the name of a cause that is
    over while its consequences last. `mode` is how far the rules behind the verdict may go.
    `clears` says of each blamed entity what would take the suspicion from it.
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
    answer: str = "unknown"
    alternatives: tuple[Blame, ...] = ()
    exclude: tuple[str, ...] = ()
    clears: Mapping[str, str] = field(default_factory=dict)
    stands: frozenset[str] = frozenset()
    mode: str = Mode.ACT
    facts: Mapping[str, Any] = field(default_factory=dict)
    onset_step: int | None = None


def diagnose(
    findings: Sequence[Finding],
    *,
    now: float,
    policy: RunPolicy,  # noqa: ARG001 - thresholds of the verdict are not a run's to move
    history: History = NOTHING_KNOWN,
) -> Diagnosis:
    """Weigh the findings of one incident; raise `ValueError` when there are none.

    A finding that cleared counts only when nothing else is left, or when it had been
    confirmed and explains what is left. `now` is in seconds since the epoch.
    """
    leading, counted, live = lead(findings), held(findings), standing(findings)
    weighed = weigh((line for item in counted for line in item.evidence), now=now, history=history)
    confirmed = any(item.stage is Stage.CONFIRMED for item in live)
    verdict = judge(weighed, counted, confirmed=confirmed)
    return Diagnosis(
        klass=leading.klass,
        title=leading.sentence or f"{leading.klass} of {leading.entity}",
        severity=_severity(counted),
        confirmed=confirmed,
        cleared_up=not live,
        blamed=verdict.blamed,
        cleared=tuple(sorted(entity for entity, score in weighed.scores.items() if score < 0)[:MAX_CLEARED]),
        act_on=verdict.act_on,
        evidence=weighed.lines[:MAX_EVIDENCE],
        began=min(item.began for item in counted),
        root_cause=_root_cause(leading, verdict, confirmed=confirmed),
        fingerprint=_fingerprint(symptom(findings)),
        attempt=leading.attempt if leading.attempt is not None else _newest(counted),
        answer=verdict.answer,
        alternatives=verdict.alternatives,
        exclude=verdict.exclude,
        clears={blame.entity: clears(blame.entity) for blame in verdict.blamed},
        stands=frozenset(item.klass for item in live),
        mode=_mode(live, leading, verdict),
        facts=_facts(counted, leading),
        onset_step=_step(leading.facts.get("onset_step")),
    )


def _newest(findings: Iterable[Finding]) -> int | None:
    return max((item.attempt for item in findings if item.attempt is not None), default=None)


def _severity(findings: Iterable[Finding]) -> str:
    return max(
        (item.severity for item in findings), key=lambda word: SEVERITIES.index(word) if word in SEVERITIES else 0
    )


def _fingerprint(item: Finding) -> str:
    return f"{item.klass}:{item.facts.get('fingerprint', item.detector)}"


def _mode(live: Sequence[Finding], leading: Finding, verdict: Verdict) -> str:
    """Give the weakest mode of what names the incident and of what condemns a node."""
    condemned = {f"node:{name}" for name in verdict.exclude}
    behind = [item for item in live if any(line.entity in condemned and line.weight > 0 for line in item.evidence)]
    modes = list(Mode)
    return min((item.mode for item in [leading, *behind]), key=lambda word: modes.index(Mode(word)))


def _facts(findings: Sequence[Finding], leading: Finding) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for item in sorted(findings, key=lambda item: (item is leading, item.at, item.key)):
        merged.update(item.facts)
    return merged


def _step(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _root_cause(leading: Finding, verdict: Verdict, *, confirmed: bool) -> str:
    told = str(leading.facts.get("cause", ""))
    if told:
        return told
    if verdict.act_on:
        return f"node {verdict.act_on}"
    if not verdict.blamed:
        return "unknown"
    first = verdict.blamed[0]
    sure = confirmed and first.entity == leading.entity and first.score >= ACT_SCORE and first.margin >= ACT_MARGIN
    if sure and not first.entity.startswith(("rank:", "node:", "gpu:")):
        return f"the {first.entity}" if ":" not in first.entity else place(first.entity)
    return f"unknown; {place(first.entity)} is suspected"
