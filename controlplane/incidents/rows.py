"""Findings as rows and as the domain knows them.

A finding that cleared after it was confirmed keeps its words and its evidence: it
is over, not untrue, and may still explain what is left.
"""

from dataclasses import asdict, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from controlplane.domain.chronicle.words import cut
from controlplane.domain.diagnosis.inhibit import HELD_BEFORE, OVER_AT
from controlplane.domain.findings import Evidence, Stage
from controlplane.domain.findings import Finding as Judgement
from controlplane.incidents.models import Finding
from controlplane.runs.times import moment, seconds

MAX_KEY = 200
MAX_SENTENCE = 1_000
MAX_ENTITY = 150
DIGITS = 16


def key_of(judgement: Judgement) -> str:
    """Return the key that a finding is kept under; a long one, as paths make it, is cut and ends in its digest."""
    key = judgement.key
    if len(key) <= MAX_KEY:
        return key
    return key[: MAX_KEY - DIGITS] + sha256(key.encode()).hexdigest()[:DIGITS]


def columns(judgement: Judgement, now: datetime) -> dict[str, Any]:
    """Return the columns of a finding seen for the first time."""
    return {
        "detector": judgement.detector[:8], "klass": judgement.klass, "stage": judgement.stage.value,
        "entity": judgement.entity[:MAX_ENTITY], "attempt": judgement.attempt, "severity": judgement.severity,
        "sentence": cut(judgement.sentence, MAX_SENTENCE), "began_at": moment(judgement.began),
        "found_at": moment(judgement.at), "facts": dict(judgement.facts),
        "rule": judgement.rule[:64], "mode": str(judgement.mode),
        "confirmed_at": now if judgement.stage is Stage.CONFIRMED else None,
        "cleared_at": now if judgement.stage is Stage.CLEARED else None,
        "evidence": [asdict(line) for line in judgement.evidence],
    }  # fmt: skip


def changes(row: Finding, judgement: Judgement, now: datetime) -> dict[str, Any]:
    """Return the columns of a finding that came again."""
    if judgement.stage is Stage.CLEARED:
        return _cleared(row, judgement, now)
    new = columns(judgement, now)
    return {**new, "confirmed_at": row.confirmed_at or new["confirmed_at"], "found_at": row.found_at}


def _cleared(row: Finding, judgement: Judgement, now: datetime) -> dict[str, Any]:
    left: dict[str, Any] = {"stage": Stage.CLEARED.value, "cleared_at": now}
    if row.confirmed_at is None or judgement.facts.get("withdrawn"):
        left |= {"evidence": [], "facts": dict(judgement.facts), "confirmed_at": None}
    return left


def judgement_of(row: Finding, run: str | None) -> Judgement:
    """Return a stored finding as the domain knows it."""
    return Judgement(
        key=row.key, detector=row.detector, klass=row.klass, stage=Stage(row.stage), entity=row.entity,
        began=seconds(row.began_at), at=seconds(row.found_at), run=run, attempt=row.attempt,
        severity=row.severity, sentence=row.sentence, facts=_facts(row), rule=row.rule, mode=row.mode,
        evidence=tuple(Evidence(**line) for line in row.evidence),
    )  # fmt: skip


def standing_again(row: Finding, run: str | None) -> Judgement:
    """Return a stored finding as it was before it cleared."""
    was = Stage.CONFIRMED if row.confirmed_at else Stage.SUSPECT
    return replace(judgement_of(row, run), stage=was, facts=dict(row.facts))


def _facts(row: Finding) -> dict[str, Any]:
    if row.stage != Stage.CLEARED or row.confirmed_at is None or row.cleared_at is None:
        return dict(row.facts)
    return {**row.facts, HELD_BEFORE: True, OVER_AT: seconds(row.cleared_at)}
