"""How a stall of progress is told: class, sentence, evidence and facts."""

from controlplane.domain.detection import phases, weights
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.stacks import Testimony
from controlplane.domain.detection.state import AttemptState, RankState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-01"
MAX_NAMED = 8
SPREAD_TOLD_S = 30.0
SEVERITY = {Stage.CONFIRMED: "critical"}


def klass(what: str) -> str:
    """Give the class of incident for what was waited for."""
    return "restore_stall" if what == "restore" else "hang"


def finding(state: RunState, attempt: AttemptState, said: Testimony, policy: RunPolicy) -> Finding:
    """Give the finding that `state.hang` stands for, with what the stacks said."""
    hang, stage = state.hang, Stage(state.hang.stage)
    late = _late(attempt, hang.what, stage)
    evidence = (*said.evidence, *late)
    return Finding(
        key=f"{state.run}/{attempt.number}/hang/{hang.serial}",
        detector=DETECTOR,
        klass=klass(hang.what),
        stage=stage,
        entity=late[0].entity if late and said.entity == "run" else said.entity,
        began=hang.began,
        at=hang.confirmed_at if stage is Stage.CONFIRMED else hang.suspected_at,
        run=state.run,
        attempt=attempt.number,
        severity=SEVERITY.get(stage, "warning"),
        sentence=_over(state) if stage is Stage.CLEARED else _sentence(state, attempt, said, late),
        evidence=evidence,
        facts=_facts(state, attempt, said, evidence, policy),
    )


def _late(attempt: AttemptState, what: str, stage: Stage) -> list[Evidence]:
    """Name the few ranks that stopped in a restore while most others ended theirs (methods 1)."""
    behind = phases.behind(attempt, what) if what == "restore" and stage is not Stage.CLEARED else {}
    done = sum(rank.phase.name == what and rank.phase.complete for rank in attempt.ranks.values())
    if not behind or len(behind) >= done:
        return []
    return [
        Evidence(
            at=rank.phase.moved_at,
            entity=f"rank:{number}",
            weight=weights.BEHIND,
            text=f"{_stopped(number, rank)} while {done} ranks have all of theirs",
            kind="behind in restore",
        )
        for number, rank in sorted(behind.items())[:MAX_NAMED]
    ]


def _stopped(number: int, rank: RankState) -> str:
    mark = rank.phase
    where = f" on {rank.node}" if rank.node else ""
    return f"rank {number}{where} stopped at {mark.done or 0:.0f} of {mark.total or 0:.0f} {mark.unit or 'parts'}"


def _over(state: RunState) -> str:
    if state.hang.k is None or klass(state.hang.what) != "hang":
        return f"run {state.run} made progress again by itself"
    return f"run {state.run} made progress again by itself; a step may last {state.hang.k:.2g} medians from now on"


def _sentence(state: RunState, attempt: AttemptState, said: Testimony, late: list[Evidence]) -> str:
    hang = state.hang
    last = "no step yet" if attempt.last_step is None else f"step {attempt.last_step} was the last"
    what = "made no step" if hang.what in ("step", "first step") else f"made no progress in {hang.what}"
    base = f"run {state.run} {what} within its deadline of {hang.deadline_s:.4g} s; {late[0].text if late else last}"
    if hang.spread_s >= SPREAD_TOLD_S:
        base = f"{base}; the ranks entered {hang.spread_s:.0f} s apart"
    if hang.stage != Stage.CONFIRMED:
        return base
    return f"{base}; {said.independent or 'twice the deadline is over'}"


def _facts(
    state: RunState, attempt: AttemptState, said: Testimony, evidence: tuple[Evidence, ...], policy: RunPolicy
) -> dict[str, object]:
    hang = state.hang
    blamed = {line.entity for line in evidence}
    places = {str(number): rank.node for number, rank in attempt.ranks.items() if f"rank:{number}" in blamed}
    return {
        "waited_for": hang.what,
        "deadline_s": round(hang.deadline_s, 3),
        "k": round(phases.factor_k(state, policy, hang.suspected_at), 3),
        "last_step": attempt.last_step,
        "last_progress_at": hang.mark,
        "entry_spread_s": round(hang.spread_s, 3),
        "missing": {
            str(number): [rank.phase.done, rank.phase.total]
            for number, rank in sorted(phases.behind(attempt, hang.what).items())[:MAX_NAMED]
        },
        "independent": said.independent,
        "places": places,
        "fingerprint": f"{klass(hang.what)} in {hang.what}",
        "cause": _cause(said),
    }


def _cause(said: Testimony) -> str:
    stopped = [line.text for line in said.evidence if line.entity.startswith("rank:") and "process" in line.text]
    return stopped[0] if stopped else ""
