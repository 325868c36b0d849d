"""Compare the failures of launches: a loop, a step that fails everywhere, a checkpoint that kills.

One failure is judged by its own evidence; what these rules add is what no single
launch can show. They know three stories, the most telling first (methods 8, 11.5):
a checkpoint after whose restore the run soon died twice on different machines, a step
at which it dies on different machines, and failures that repeat without a checkpoint
to show for the launches between them. What a fault of a machine explains is no
repetition.
"""

from itertools import combinations, pairwise

from controlplane.domain.detection import repeats_words, saves
from controlplane.domain.detection.deaths import EVERYWHERE
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.repeats_state import Failure
from controlplane.domain.detection.repeats_words import Story
from controlplane.domain.detection.silence import members
from controlplane.domain.detection.state import COMPLETED, RESTING, AttemptState, RunState
from controlplane.domain.findings import Finding, Stage

MACHINE = frozenset({"gpu_fault", "node_lost", "correlated_loss", "network_fault", "storage_stall", "host_memory"})
MAX_FAILURES = 12
LOOP, SAME_STEP, POISON = "crash_loop", "workload_error", "checkpoint_poison"


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Note how the attempt fails, and give the story that the failures tell or its end."""
    record = state.repeats
    _note(state, policy, now)
    story = _story(state, policy)
    if story is None:
        return _clear(state, now)
    if not record.klass:
        record.serial, record.klass, record.found_at = record.serial + 1, story.klass, now
        record.began = story.failures[0].at
    return [repeats_words.finding(state, story)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a death has gathered its companions' reports and counts as this attempt's failure."""
    if state.attempt is None or state.death.found_at is None:
        return None
    moment = state.death.found_at + policy.settle_s
    return moment if moment > now else None


def _note(state: RunState, policy: RunPolicy, now: float) -> None:
    """Write the failure of the current attempt."""
    record, attempt = state.repeats, state.attempt
    if attempt is None:
        return
    failure = _failure(state, attempt, policy, now) if attempt.state != COMPLETED else None
    if failure is not None:
        others = [one for one in record.failures if one.attempt != attempt.number]
        record.failures = [*others, failure][-MAX_FAILURES:]
    for one in record.failures:
        one.machine = one.machine or (one.attempt == attempt.number and _machine(state, attempt))


def _failure(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> Failure | None:
    death, hang = state.death, state.hang
    if death.found_at is not None and (now >= death.found_at + policy.settle_s or attempt.state == RESTING):
        return _made(state, attempt, death.found_at, death.sign, place=death.place, clear=death.clear)
    if death.found_at is None and hang.stage == Stage.CONFIRMED:
        return _made(state, attempt, hang.confirmed_at, f"hang in {hang.what}", place="", clear=True)
    return None


def _made(state: RunState, attempt: AttemptState, at: float, sign: str, *, place: str, clear: bool) -> Failure:
    resumed, since = _restored(state, attempt)
    return Failure(
        attempt=attempt.number,
        at=at,
        sign=sign,
        place=place,
        clear=clear,
        step=attempt.last_step,
        resumed=resumed,
        since_s=None if since is None else at - since,
        nodes=members(attempt),
        high_water=max(state.high_water_step, attempt.last_step or 0),
    )


def _restored(state: RunState, attempt: AttemptState) -> tuple[int | None, float | None]:
    """Give the step from which the attempt went on and when; (None, None) when it never came so far."""
    word = state.resume
    if word.attempt == attempt.number and word.step is not None:
        return word.step, word.at
    if attempt.first_at is not None and attempt.resume_step is not None:
        return attempt.resume_step, attempt.first_at
    return None, None


def _machine(state: RunState, attempt: AttemptState) -> bool:
    """Say whether a fault of a machine, the network or the storage was found in this attempt."""
    return any(
        told.klass in MACHINE and told.stage == Stage.CONFIRMED and told.attempt in (None, attempt.number)
        for told in state.told.values()
    )


def _story(state: RunState, policy: RunPolicy) -> Story | None:
    """Give the story of the failures that no machine explains; what was told first keeps its class."""
    failures = [one for one in open_failures(state) if not one.machine]
    told = state.repeats.klass
    stories = (_poison(failures, policy), _same_step(failures, policy), _loop(failures, policy))
    found = [story for story in stories if story is not None]
    kept = next((story for story in found if story.klass == told), None)
    if kept is None and told and found:
        return Story(told, found[0].failures, found[0].launches)
    return kept or (found[0] if found else None)


def open_failures(state: RunState) -> list[Failure]:
    """Give the failures that no durable progress has left behind."""
    return [one for one in state.repeats.failures if not saves.progressed_since(state, one.attempt)]


def _poison(failures: list[Failure], policy: RunPolicy) -> Story | None:
    """Two deaths soon after a restore from one checkpoint, on different machines (methods 8).

    It is not the checkpoint when the run failed in the same way without it, or went on
    from it for long, or never came past the step at all.
    """
    for one, other in _pairs(failures):
        alike = one.resumed == other.resumed and _soon(one, policy) and _soon(other, policy)
        if alike and one.resumed and _elsewhere(one, other) and _only_from(one.resumed, [one, other], failures, policy):
            return Story(POISON, (one, other), len(failures) - 1)
    return None


def _pairs(failures: list[Failure]) -> list[tuple[Failure, Failure]]:
    """Give the pairs of failures whose cause is known, oldest first."""
    return list(combinations([one for one in failures if one.clear], 2))


def _soon(failure: Failure, policy: RunPolicy) -> bool:
    if failure.resumed is None or failure.since_s is None:
        return False
    made = (failure.step if failure.step is not None else failure.resumed) - failure.resumed
    return 0 <= made <= policy.poison_steps or failure.since_s <= policy.poison_s


def _elsewhere(one: Failure, other: Failure) -> bool:
    """Say whether two failures are known to have begun on different machines."""
    if EVERYWHERE in (one.place, other.place):
        return True
    return bool(one.place and other.place) and one.place != other.place


def _only_from(resumed: int, pair: list[Failure], failures: list[Failure], policy: RunPolicy) -> bool:
    others = [one for one in failures if one not in pair]
    signs = {one.sign for one in pair}
    same_without = any(one.sign in signs and one.resumed != resumed for one in others)
    went_well = any(one.resumed == resumed and not _soon(one, policy) for one in failures)
    stuck = len(signs) == 1 and _near(pair[0], pair[1], policy) and pair[1].high_water <= (pair[1].step or 0)
    return not (same_without or went_well or stuck)


def _near(one: Failure, other: Failure, policy: RunPolicy) -> bool:
    return one.step is not None and other.step is not None and abs(one.step - other.step) <= policy.same_step_steps


def _same_step(failures: list[Failure], policy: RunPolicy) -> Story | None:
    """One kind of failure at one step in two launches running, on different machines: the work itself."""
    known = [one for one in failures if one.clear]
    for one, other in pairwise(known):
        if one.sign == other.sign and _near(one, other, policy) and _elsewhere(one, other):
            same = tuple(item for item in known if item.sign == one.sign and _near(item, one, policy))
            return Story(SAME_STEP, same, len(failures) - 1)
    return None


def _loop(failures: list[Failure], policy: RunPolicy) -> Story | None:
    """Equal failures, or launches without anything durable to show for them (D-11)."""
    for failure in failures:
        same = tuple(one for one in failures if one.clear and failure.clear and one.sign == failure.sign)
        if len(same) >= policy.same_failures:
            return Story(LOOP, tuple(failures), len(failures) - 1)
    if len(failures) - 1 >= policy.fruitless_launches:
        return Story(LOOP, tuple(failures), len(failures) - 1)
    return None


def _clear(state: RunState, now: float) -> list[Finding]:
    if not state.repeats.klass:
        return []
    found = repeats_words.over(state, now, left_behind=not open_failures(state))
    state.repeats.klass = ""
    return [found]
