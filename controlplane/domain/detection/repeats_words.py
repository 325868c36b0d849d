"""How the comparison of failed launches is told."""

from dataclasses import dataclass

from controlplane.domain.detection import weights
from controlplane.domain.detection.repeats_state import Failure
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-11"
MAX_NAMED = 6


@dataclass(frozen=True, slots=True)
class Story:
    """What failures tell together; `launches` is how many brought nothing durable."""

    klass: str
    failures: tuple[Failure, ...]
    launches: int


def finding(state: RunState, story: Story) -> Finding:
    """Give the finding of a story."""
    record, last = state.repeats, story.failures[-1]
    record.entity = _entity(story)
    return Finding(
        key=_key(state),
        detector=DETECTOR,
        klass=story.klass,
        stage=Stage.CONFIRMED,
        entity=record.entity,
        began=record.began,
        at=record.found_at,
        run=state.run,
        attempt=last.attempt,
        sentence=_sentence(state, story),
        evidence=tuple(_evidence(story)),
        facts=_facts(story),
    )


def over(state: RunState, now: float, *, left_behind: bool) -> Finding:
    """Give the end of what was told."""
    record = state.repeats
    return Finding(
        key=_key(state),
        detector=DETECTOR,
        klass=record.klass,
        stage=Stage.CLEARED,
        entity=record.entity,
        began=record.began,
        at=now,
        run=state.run,
        attempt=state.attempt.number if state.attempt else None,
        severity="info",
        sentence=_end(state, left_behind=left_behind),
    )


def _key(state: RunState) -> str:
    return f"{state.run}/repeats/{state.repeats.serial}"


def _entity(story: Story) -> str:
    if story.klass == "checkpoint_poison":
        return f"checkpoint:{story.failures[-1].resumed}"
    return "workload" if story.klass == "workload_error" else "run"


def _sentence(state: RunState, story: Story) -> str:
    last, nodes = story.failures[-1], _nodes(story)
    if story.klass == "checkpoint_poison":
        return (
            f"run {state.run} died {len(story.failures)} times soon after restoring checkpoint {last.resumed}, "
            f"on different machines{nodes}; the checkpoint is the likely cause"
        )
    if story.klass == "workload_error":
        return (
            f"run {state.run} died {len(story.failures)} times at {_steps(story)} in the same way ({last.sign}) "
            f"on different machines{nodes}; the code or the data is the likely cause"
        )
    return (
        f"run {state.run} failed {len(story.failures)} times without a new complete checkpoint between, "
        f"{_ways(story)}; another launch alone will not help"
    )


def _nodes(story: Story) -> str:
    names = sorted({one.place for one in story.failures if one.place.strip("*")})[:MAX_NAMED]
    return f" ({', '.join(names)})" if names else ""


def _steps(story: Story) -> str:
    steps = sorted({one.step for one in story.failures if one.step is not None})
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _ways(story: Story) -> str:
    signs = {one.sign for one in story.failures}
    return f"each time with {story.failures[-1].sign}" if len(signs) == 1 else f"in {len(signs)} ways"


def _evidence(story: Story) -> list[Evidence]:
    """What repeats on different machines speaks against what they had in common."""
    if story.klass == "crash_loop":
        return []
    last = story.failures[-1]
    poison = story.klass == "checkpoint_poison"
    text = (
        f"{len(story.failures)} attempts died soon after restoring checkpoint {last.resumed} on different machines"
        if poison
        else f"{len(story.failures)} attempts died at {_steps(story)} in the same way on different machines"
    )
    weight = weights.POISON if poison else weights.SAME_STEP
    return [Evidence(at=last.at, entity=_entity(story), weight=weight, text=text, kind=story.klass)]


def _facts(story: Story) -> dict[str, object]:
    last = story.failures[-1]
    same_step = story.klass == "workload_error"
    return {
        "launches": story.launches,
        "since": story.failures[0].at,
        "attempts": [one.attempt for one in story.failures],
        "steps": [one.step for one in story.failures],
        "same_step": same_step,
        "step": last.resumed if story.klass == "checkpoint_poison" else last.step,
        "last_step": last.step,
        "fingerprint": last.sign,
        "cause": _cause(story),
        "places": {},
    }


def _cause(story: Story) -> str:
    if story.klass == "checkpoint_poison":
        return f"checkpoint {story.failures[-1].resumed}"
    return f"code or data at {_steps(story)}" if story.klass == "workload_error" else ""


def _end(state: RunState, *, left_behind: bool) -> str:
    if not left_behind:
        return f"a fault of a machine explains the failures of run {state.run}, so they are no repetition"
    return f"run {state.run} has saved a checkpoint beyond its earlier failures"
