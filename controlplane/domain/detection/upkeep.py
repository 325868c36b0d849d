"""Find saves that do not come, and saves that are not whole (D-09).

A run that makes steps and saves nothing looks healthy and puts ever more work at risk.
A save that lacks files looks like a restore point and is none. Neither is touched: the
run goes on, a person is told, and the restart looks further back by itself.
"""

from statistics import median

from controlplane.domain.chronicle import words
from controlplane.domain.detection import phases, reading, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.saves import DURABLE, VOLATILE
from controlplane.domain.detection.state import LIVE, AttemptState, RunState
from controlplane.domain.detection.upkeep_state import Torn, UpkeepState
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-09"
OVERDUE, INCOMPLETE = "checkpoint_overdue", "checkpoint_incomplete"
BROKEN = frozenset({"torn", "failed"})
MIN_GAPS = 2
MAX_GAPS = 16
MAX_TORN = 16
LATE_WORD_S = 300.0
"""How late the word of a save may come before its absence counts: agents spool, and spools drain late."""


def take(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in what an event says of one save; a later word on the same step replaces the earlier."""
    step, word = reading.integer(signal.data, "step"), reading.text(signal.data, "state")
    if step is None or step < 0 or reading.text(signal.data, "tier") == VOLATILE or word not in DURABLE | BROKEN:
        return
    mine = state.upkeep
    files, expected = reading.integer(signal.data, "files"), reading.integer(signal.data, "expected_files")
    short = files is not None and expected is not None and files < expected
    if word in BROKEN or short:
        _torn(mine, step, Torn(files=files, expected=expected, found_at=signal.received))
    else:
        mine.torn.pop(step, None)
        _whole(mine, step, signal.received)


def _torn(mine: UpkeepState, step: int, torn: Torn) -> None:
    known = mine.torn.get(step)
    torn.found_at = known.found_at if known else torn.found_at
    mine.torn[step] = torn
    for old in sorted(mine.torn)[: max(0, len(mine.torn) - MAX_TORN)]:
        del mine.torn[old]


def _whole(mine: UpkeepState, step: int, at: float) -> None:
    if mine.good_step is not None and step > mine.good_step:
        mine.gaps = [*mine.gaps, step - mine.good_step][-MAX_GAPS:]
    if mine.good_step is None or step != mine.good_step:
        mine.good_step, mine.good_at = step, max(at, mine.good_at)


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge the saves: those that are not whole, and the one that does not come."""
    return [*_incomplete(state, now), *_overdue(state, policy, now)]


def _incomplete(state: RunState, now: float) -> list[Finding]:
    mine, best = state.upkeep, state.upkeep.good_step
    standing = [step for step in mine.torn if best is None or step > best]
    ended = [step for step in mine.told if step not in standing]
    mine.told = sorted(standing)
    found = [
        _torn_finding(state, step, mine.torn[step], Stage.CONFIRMED, mine.torn[step].found_at) for step in standing
    ]
    return [*found, *(_torn_finding(state, step, Torn(), Stage.CLEARED, now) for step in ended)]


def _torn_finding(state: RunState, step: int, torn: Torn, stage: Stage, at: float) -> Finding:
    entity = f"checkpoint:{step}"
    if stage is Stage.CLEARED:
        told = f"the checkpoint of step {step} no longer matters: a later one is whole"
    elif torn.files is None or torn.expected is None:
        told = f"the checkpoint of step {step} is not whole, so the run cannot be resumed from it"
    else:
        told = (
            f"the checkpoint of step {step} has {torn.files} of {torn.expected} files, "
            "so the run cannot be resumed from it"
        )
    line = Evidence(at=at, entity=entity, weight=1.0, text=told, kind="incomplete checkpoint")
    return Finding(
        key=f"{state.run}/incomplete/{step}",
        detector=DETECTOR,
        klass=INCOMPLETE,
        stage=stage,
        entity=entity,
        began=at,
        at=at,
        run=state.run,
        severity="info" if stage is Stage.CLEARED else "warning",
        sentence=told,
        evidence=(line,) if stage is Stage.CONFIRMED else (),
        facts={"step": step, "files": torn.files, "expected_files": torn.expected, "fingerprint": INCOMPLETE},
    )


def _overdue(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    mine, limit = state.upkeep, _limit(state, policy)
    attempt = state.attempt
    if mine.late_since is not None and (limit is None or now < limit):
        began, mine.late_since = mine.late_since, None
        return [_late_finding(state, Stage.CLEARED, began, now, "saves come again")]
    if attempt is None or limit is None or now < limit or not _advances(state, attempt, policy, now):
        return []
    if mine.late_since is None:
        mine.late_since, mine.serial = now, mine.serial + 1
    base = _base(mine, attempt)
    last = (
        "none in this attempt"
        if mine.good_at < (attempt.first_at or 0.0)
        else f"the last one is that of step {mine.good_step}"
    )
    told = (
        f"run {state.run} makes steps and has saved nothing for {words.duration(mine.late_since - base)}, "
        f"a save is due every {words.duration(_interval_s(state, policy) or 0.0)}; {last}"
    )
    return [_late_finding(state, Stage.CONFIRMED, base, mine.late_since, told)]


def _advances(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> bool:
    """A run that stands still cannot save; that is another finding's to tell."""
    if attempt.state != LIVE or attempt.progress_step is None or state.troubled:
        return False
    return now - attempt.progress_at < phases.step_deadline_s(state, policy, now)


def _base(mine: UpkeepState, attempt: AttemptState) -> float:
    """The clock runs from the last whole save, or from the attempt's first step: its restore point was safe."""
    return max(mine.good_at, attempt.first_at or 0.0)


def _interval_s(state: RunState, policy: RunPolicy) -> float | None:
    """Give the time between saves: as declared, else as learned from the last ones; None while unknown."""
    gaps, step_s = state.upkeep.gaps, steps.median_step_s(state, policy)
    every = policy.checkpoint_every_steps or (median(gaps) if len(gaps) >= MIN_GAPS else None)
    return every * step_s if every and step_s else None


def _limit(state: RunState, policy: RunPolicy) -> float | None:
    attempt, interval = state.attempt, _interval_s(state, policy)
    if attempt is None or attempt.first_step is None or interval is None:
        return None
    return _base(state.upkeep, attempt) + policy.checkpoint_overdue_intervals * interval + LATE_WORD_S


def _late_finding(state: RunState, stage: Stage, began: float, at: float, told: str) -> Finding:
    return Finding(
        key=f"{state.run}/overdue/{state.upkeep.serial}",
        detector=DETECTOR,
        klass=OVERDUE,
        stage=stage,
        entity="run",
        began=began,
        at=at,
        run=state.run,
        severity="info" if stage is Stage.CLEARED else "critical",
        sentence=told,
        facts={"last_saved_step": state.upkeep.good_step, "fingerprint": OVERDUE},
    )


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give the moment at which the next save is overdue."""
    limit = _limit(state, policy)
    return limit if limit is not None and limit > now else None
