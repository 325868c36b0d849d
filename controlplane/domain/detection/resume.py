"""Find an attempt that did not resume where it was told to (methods 11.19).

It looks healthy and overwrites what is worth most, so it is stopped before its first
save: it starts below the declared restore point, begins anew beside a complete
checkpoint, or never says what it loaded although its hooks always did.
"""

from controlplane.domain.detection import reading, saves
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-13"
SILENT_STEPS = 20
"""Steps an attempt may make before it has said what it resumed."""
KINDS = frozenset({"rank.resume", "checkpoint"})


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in what a rank says it loaded, and which checkpoints exist."""
    if signal.kind == "checkpoint":
        saves.take(state, signal, policy)
    elif state.attempt is not None and signal.attempt is not None:
        _word(state, signal, signal.attempt)


def _word(state: RunState, signal: Signal, attempt: int) -> None:
    record, step = state.resume, reading.integer(signal.data, "step")
    if step is None or step < 0:
        return
    record.known = attempt if record.known is None else min(record.known, attempt)
    if attempt > record.attempt or record.step is None:
        record.attempt, record.step, record.at = attempt, step, signal.received
    elif attempt == record.attempt and step < record.step:
        record.step = step


def look(state: RunState, _policy: RunPolicy, now: float) -> list[Finding]:
    """Give the finding while the attempt contradicts its restore point."""
    attempt, record = state.live, state.resume
    if attempt is None:
        return []
    why = _below(state, attempt) or _anew(state, attempt) or _silent(state, attempt)
    if why and record.told != attempt.number:
        record.told, record.at_found = attempt.number, now
    if why:
        return [_finding(state, attempt, Stage.CONFIRMED, why, record.at_found)]
    if record.told != attempt.number:
        return []
    record.told = None
    return [_finding(state, attempt, Stage.CLEARED, f"run {state.run} did resume where it was told to", now)]


def _loaded(state: RunState, attempt: AttemptState) -> int | None:
    return state.resume.step if state.resume.attempt == attempt.number else None


def _below(state: RunState, attempt: AttemptState) -> str:
    declared, loaded = attempt.resume_step, _loaded(state, attempt)
    if not declared:
        return ""
    if loaded is not None and loaded < declared:
        return f"run {state.run} was to resume from step {declared} and says that it loaded step {loaded}"
    if attempt.first_step is not None and attempt.first_step < declared:
        return f"run {state.run} was to resume from step {declared} and starts at step {attempt.first_step}"
    return ""


def _anew(state: RunState, attempt: AttemptState) -> str:
    """Say whether it begins at the beginning although a checkpoint of another life stands beside it.

    A launch that declares step 0 means it. What this attempt may have saved itself does
    not count: its steps, also those still on their way, must lie far below the checkpoint.
    """
    beside = saves.newest(state)
    if attempt.resume_step is not None or beside is None or not _at_beginning(state, attempt):
        return ""
    earlier = saves.newest(state, up_to=attempt.number - 1)
    far = beside > (attempt.last_step or 0) + SILENT_STEPS
    if earlier is None and not far and state.resume.beside != attempt.number:
        return ""
    state.resume.beside = attempt.number
    return f"run {state.run} begins anew although checkpoint {beside} is complete"


def _at_beginning(state: RunState, attempt: AttemptState) -> bool:
    begun = [step for step in (attempt.first_step, _loaded(state, attempt)) if step is not None]
    return bool(begun) and max(begun) <= 1


def _silent(state: RunState, attempt: AttemptState) -> str:
    record, first, last = state.resume, attempt.first_step, attempt.last_step
    if record.known is None or record.known >= attempt.number or record.attempt == attempt.number:
        return ""
    if not attempt.resume_step or first is None or last is None or last - first < SILENT_STEPS:
        return ""
    return f"run {state.run} made {last - first} steps and never said what it resumed, as its earlier attempts did"


def _finding(state: RunState, attempt: AttemptState, stage: Stage, why: str, at: float) -> Finding:
    return Finding(
        key=f"{state.run}/{attempt.number}/resume_mismatch",
        detector=DETECTOR,
        klass="resume_mismatch",
        stage=stage,
        entity="run",
        began=attempt.first_at or attempt.began_at,
        at=at,
        run=state.run,
        attempt=attempt.number,
        severity="info" if stage is Stage.CLEARED else "critical",
        sentence=why,
        facts={
            "declared": attempt.resume_step,
            "loaded": _loaded(state, attempt),
            "first_step": attempt.first_step,
            "checkpoint": saves.newest(state),
            "fingerprint": "resume mismatch",
            "cause": why if stage is Stage.CONFIRMED else "",
        },
    )
