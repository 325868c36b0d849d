"""Where to go back to when the loss is spoilt, and which batches to leave out (methods 10).

The same batches from another state are usually harmless, so a rollback goes back well
before the onset and skips what came around it. What cannot help a second time is not
tried again: then a person is asked, with the options, because only a person changes
hyper-parameters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.domain.checkpoints.restore import RESTORABLE, Candidate

BEFORE_STEPS = 100
SKIP_BEFORE = 50
SKIP_BATCHES = 200
SKIP_BATCHES_AGAIN = 500
REGION_STEPS = 1_000
MAX_ROLLBACKS = 2
MISLEADS_STEPS = 20

OPTIONS = "lower the learning rate, go back further, or go on as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackChoice:
    """`ask` is why a person has to decide, "" when the rollback may start by itself.

    `skip` are the first and the last step whose batches are left out. `step` is the
    checkpoint that was found, also when a person is asked; None when there is none.
    `persons` is how many different people have to agree where one is asked: a rollback
    beyond what automation may do at all needs two.
    """

    step: int | None
    path: str
    skip: tuple[int, int] | None
    why: str
    ask: str
    persons: int = 1


def choose_rollback(
    checkpoints: Iterable[Candidate],
    onset_step: int,
    *,
    supports_skip: bool,
    transient: bool,
    earlier: Sequence[int] = (),
    resumed_step: int | None = None,
) -> RollbackChoice:
    """Choose the newest durable checkpoint at least 100 steps before the onset.

    `transient` says that a single rank or a hardware finding explains the trouble;
    `earlier` are the onsets that rollbacks of this run answered before; `resumed_step` is
    the checkpoint that the present attempt came from (methods 11.18, 11.23).
    """
    tried = [onset for onset in earlier if abs(onset - onset_step) <= REGION_STEPS]
    target = _target(checkpoints, onset_step, resumed_step)
    skip = _skip(onset_step, again=bool(tried)) if supports_skip else None
    ask = _ask(target, len(tried), supports_skip=supports_skip, transient=transient)
    return RollbackChoice(
        step=target.step if target else None,
        path=target.path if target else "",
        skip=skip,
        why=_why(target, onset_step, skip),
        ask=ask,
        persons=2 if len(tried) >= MAX_ROLLBACKS else 1,
    )


def _target(checkpoints: Iterable[Candidate], onset: int, resumed: int | None) -> Candidate | None:
    """Give the checkpoint; when the restored one misleads, only a verified one before it will do."""
    misled = resumed is not None and 0 <= onset - resumed <= MISLEADS_STEPS
    latest = onset - BEFORE_STEPS
    usable = [
        found
        for found in checkpoints
        if found.step <= latest
        and _durable(found)
        and not (misled and (found.state != "verified" or found.step >= (resumed or 0)))
    ]
    return max(usable, key=lambda found: (found.step, found.state == "verified", found.path), default=None)


def _durable(found: Candidate) -> bool:
    return found.state in RESTORABLE and found.tier == "persistent" and not found.suspect


def _skip(onset: int, *, again: bool) -> tuple[int, int]:
    batches = SKIP_BATCHES_AGAIN if again else SKIP_BATCHES
    first = max(1, onset - SKIP_BEFORE)
    return first, onset - SKIP_BEFORE + batches


def _ask(target: Candidate | None, tried: int, *, supports_skip: bool, transient: bool) -> str:
    if tried >= MAX_ROLLBACKS:
        return f"{tried} rollbacks within {REGION_STEPS} steps did not help; the options are: {OPTIONS}"
    if target is None:
        return f"no durable checkpoint lies {BEFORE_STEPS} steps before the onset; the options are: {OPTIONS}"
    if supports_skip or (transient and not tried):
        return ""
    if tried:
        return f"a rollback did not help and the run cannot skip batches; the options are: {OPTIONS}"
    return f"the run cannot skip batches, so the same ones would come again; the options are: {OPTIONS}"


def _why(target: Candidate | None, onset: int, skip: tuple[int, int] | None) -> str:
    if target is None:
        return f"no durable checkpoint at least {BEFORE_STEPS} steps before the onset at step {onset}"
    why = f"newest durable checkpoint at least {BEFORE_STEPS} steps before the onset at step {onset}"
    return why if skip is None else f"{why}; batches {skip[0]} to {skip[1]} are skipped"
