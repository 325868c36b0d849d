"""Tell when a launch differs from the last one that trained (D-15).

A change is no fault, so this never acts and blames nobody: it is what a person wants
to know first when the next thing goes wrong. Training on is the acknowledgement.
"""

from collections.abc import Mapping

from controlplane.domain.detection.launch_state import Launched, LaunchState, Standing
from controlplane.domain.detection.launch_words import KLASS, over
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-15"
MAX_TOLD = 8

DELIBERATE = frozenset({"git", "commit", "image", "config", "args", "branch", "data"})
"""Entries that people change on purpose; any other change may have come by itself."""

HIDDEN = frozenset({"env", "environment", "secrets"})
"""Groups whose values are never shown, because they may hold credentials."""


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Compare the present launch with the last that trained; trained on, it becomes the new measure."""
    record, attempt = state.launch, state.attempt
    launched = record.now
    if attempt is None or attempt.number != launched.attempt or not launched.fingerprint:
        return []
    if _trains(launched, policy):
        record.proven, record.proven_attempt = launched.fingerprint, launched.attempt
    changed = difference(record.proven, launched.fingerprint) if record.proven else {}
    standing = record.drift
    if not changed:
        record.drift = None
        return [] if standing is None else [over(state.run, standing, DETECTOR, _why_over(state.run, record), now)]
    if standing is None:
        standing = record.drift = Standing(key=f"{state.run}/environment/{launched.attempt}", began=now)
    return [_finding(state.run, record, standing, changed)]


def _trains(launched: Launched, policy: RunPolicy) -> bool:
    """Say whether the attempt made durable progress, or trained long enough to be believed."""
    began = launched.resume_step if launched.resume_step is not None else (launched.first_step or 1) - 1
    if launched.saved_step is not None and launched.last_step is not None and launched.saved_step > began:
        return True
    return launched.last_step is not None and launched.last_step - began >= policy.drift_accept_steps


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Give what changed, by name; an entry that is missing on one side reads ""."""
    names = sorted({*before, *after})
    pairs = {name: (before.get(name, ""), after.get(name, "")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _finding(run: str, record: LaunchState, standing: Standing, changed: Mapping[str, tuple[str, str]]) -> Finding:
    words = [_words(name, *pair) for name, pair in changed.items()]
    more = f" and {len(words) - MAX_TOLD} more" if len(words) > MAX_TOLD else ""
    deliberate = all(name.partition(".")[0] in DELIBERATE for name in changed)
    return Finding(
        key=standing.key,
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.SUSPECT,
        entity="workload",
        began=record.now.at,
        at=standing.began,
        run=run,
        severity="info" if deliberate else "warning",
        sentence=f"the launch of run {run} differs from attempt {record.proven_attempt}, the last that trained: "
        + ", ".join(words[:MAX_TOLD])
        + more,
        evidence=tuple(
            Evidence(at=record.now.at, entity="workload", weight=0.0, text=text, kind="change")
            for text in words[:MAX_TOLD]
        ),
        facts={"kind": "environment", "changed": sorted(changed), "fingerprint": "environment", "cause": ""},
    )


def _words(name: str, before: str, after: str) -> str:
    if name.partition(".")[0].lower() in HIDDEN:
        return f"{name} changed"
    return f"{name} was {before or 'not there'} and is {after or 'not there'}"


def _why_over(run: str, record: LaunchState) -> str:
    trained = record.proven_attempt == record.now.attempt
    why = "trains with what was changed" if trained else f"is launched again as attempt {record.proven_attempt} was"
    return f"run {run} {why}"
