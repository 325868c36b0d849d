"""Which finding speaks for an incident, and which only tell its consequences.

A hang or a crash that follows a fatal GPU error, a lost node or a storage that does
not answer is what that cause looks like from inside the run. It belongs to the same
incident and neither names nor widens it.
"""

from collections.abc import Sequence

from controlplane.domain.diagnosis.classes import Family, class_of, explains, rank_of
from controlplane.domain.findings import Finding, Stage

WINDOW_S = 900.0
"""A consequence may be seen this long before or after its cause (methods 7)."""

HELD_BEFORE = "held_before"
"""Name of the fact of a cleared finding that it had been confirmed: it is over, not refuted."""
OVER_AT = "over_at"
"""Name of the fact that gives when it was over, in seconds since the epoch."""

_LAUNCHES = frozenset({"crash_loop", "workload_error", "checkpoint_poison"})
"""Classes found by comparing launches: how each of these ended is told by other findings."""


def standing(findings: Sequence[Finding]) -> list[Finding]:
    """Give the findings that hold now."""
    return [item for item in findings if item.stage is not Stage.CLEARED]


def held(findings: Sequence[Finding]) -> list[Finding]:
    """Give what holds, with what is over but explains some of it; all of them when nothing holds."""
    live = standing(findings)
    if not live:
        return list(findings)
    return [item for item in findings if item in live or _still_explains(item, live)]


def _still_explains(item: Finding, live: Sequence[Finding]) -> bool:
    return bool(item.facts.get(HELD_BEFORE)) and any(is_consequence(other, item) for other in live)


def is_consequence(item: Finding, cause: Finding) -> bool:
    """Say whether `item` follows from `cause`, by its class and by when it began."""
    if not explains(cause.klass, item.klass) or cause.stage is Stage.SUSPECT:
        return False
    if cause.klass in _LAUNCHES:
        return True
    over = cause.facts.get(OVER_AT)
    ended = float(over) if isinstance(over, (int, float)) else item.began
    return cause.began - WINDOW_S <= item.began <= ended + WINDOW_S


def lead(findings: Sequence[Finding]) -> Finding:
    """Give the finding that names the incident: what is sure, then what is nearest to a cause.

    Raises:
        ValueError: there are no findings.
    """
    if not findings:
        raise ValueError("nothing to diagnose")
    return min(held(findings), key=_order)


def _order(item: Finding) -> tuple[bool, int, float, str]:
    suspicion = item.stage is Stage.SUSPECT or (item.stage is Stage.CLEARED and not item.facts.get(HELD_BEFORE))
    return suspicion, rank_of(item.klass), item.began, item.key


def symptom(findings: Sequence[Finding]) -> Finding:
    """Give the finding that tells how the newest launch failed, below what compares launches."""
    own = [item for item in held(findings) if item.klass not in _LAUNCHES]
    if not own:
        return lead(findings)
    newest = max((item.attempt for item in own if item.attempt is not None), default=None)
    return min((item for item in own if item.attempt == newest), key=_order, default=min(own, key=_order))


def family_of(klass: str, severity: str, stage: Stage | str) -> Family:
    """Say with what a finding is told: of the classes that stop a run, what only warns does not."""
    family = class_of(klass).family
    noted = severity == "info" and stage == Stage.CONFIRMED
    warns = klass in _MAY_WARN and severity != "critical"
    return Family.ADVICE if family is Family.STOP and (noted or warns) else family


_MAY_WARN = frozenset({"storage_stall", "network_fault", "workload_error"})
"""Classes that also tell of what may stop the run one day: a disk that fills, a link that flaps."""
