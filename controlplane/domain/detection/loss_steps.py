"""Judge loss, gradient norm and loss scale step by step, in the order of the steps (methods 10).

Events may come late, twice or out of order, so a step waits for the ones before it;
one that is missing is given up after a while. What was judged is never judged again.
"""

from statistics import median

from controlplane.domain.detection.loss_state import (
    BELOW,
    DRIFT,
    NAN,
    SCALE,
    SPIKE,
    LossState,
    Point,
    Reference,
    Rollback,
    ScaleState,
    Watch,
)
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage

MAD_TO_SIGMA = 1.4826
MAX_WAITING = 128
MAX_PAST = 16
MAX_ROLLBACKS = 32
BELOW_ROW = 3
SKIPPED_ROW = 3
DRIFT_EVERY = 10
SCALE_WINDOW = 50
SIGN_FALL = 8.0


def begin(numbers: LossState, attempt: int) -> LossState:
    """Start over for a new attempt; keep the memory of rollbacks and the numbering of findings."""
    kept = numbers.trouble
    return LossState(
        attempt=attempt,
        serial=numbers.serial,
        rollbacks=numbers.rollbacks,
        unanswered=kept.onset_step if kept.stage == Stage.CONFIRMED else numbers.unanswered,
    )


def begin_again(numbers: LossState, point: Point) -> LossState:
    """Start over inside an attempt whose steps went back; what stood before is told to be over."""
    fresh = begin(numbers, numbers.attempt)
    fresh.past, fresh.supports = numbers.past, numbers.supports
    for watch in (numbers.trouble, numbers.drift, numbers.below):
        if watch.stage:
            watch.stage, watch.at, watch.end_step = Stage.CLEARED.value, point.at, point.step
            retire(fresh, watch)
    return fresh


def resumed(numbers: LossState, step: int) -> None:
    """Note that the attempt begins behind `step`: a rollback when that lies before a confirmed onset."""
    onset = numbers.unanswered
    if onset is None:
        return
    numbers.unanswered = None
    if step < onset:
        back = Rollback(onset_step=onset, resume_step=step, attempt=numbers.attempt)
        numbers.rollbacks = [*numbers.rollbacks, back][-MAX_ROLLBACKS:]


def region(numbers: LossState, onset: int, policy: RunPolicy) -> list[Rollback]:
    """Give the rollbacks that were tried in the region of an onset, oldest first."""
    return [back for back in numbers.rollbacks if abs(back.onset_step - onset) <= policy.loss_region_steps]


def release(numbers: LossState, policy: RunPolicy, now: float, expected: int | None) -> None:
    """Judge every step whose turn has come; `expected` is the first step of the attempt, if known."""
    while numbers.waiting:
        step = min(numbers.waiting)
        following = expected if numbers.last_step is None else numbers.last_step + 1
        patient = numbers.waiting[step].at + policy.loss_reorder_s > now
        if patient and step != following and len(numbers.waiting) <= MAX_WAITING:
            return
        point = numbers.waiting.pop(step)
        numbers.last_step, numbers.last_ms = step, max(numbers.last_ms, point.at_ms)
        _judge(numbers, point, policy)


def reference(losses: list[float], policy: RunPolicy) -> Reference:
    """Give median and 1.4826 MAD of the losses, the spread never below its floor."""
    middle = median(losses)
    spread = MAD_TO_SIGMA * median(abs(loss - middle) for loss in losses)
    return Reference(median=middle, sigma=max(spread, policy.loss_sigma_floor * abs(middle)))


def usual(numbers: LossState, policy: RunPolicy) -> Reference | None:
    """Give the reference of the last losses, None while there are too few."""
    if len(numbers.losses) < policy.loss_min_samples:
        return None
    return reference(numbers.losses[-policy.loss_window :], policy)


def _judge(numbers: LossState, point: Point, policy: RunPolicy) -> None:
    floored = _scale(numbers.scale, point, policy)
    numbers.broken_row = numbers.broken_row + 1 if point.broken else 0
    if point.broken:
        _broken(numbers, point, policy)
    elif point.loss is not None:
        _finite(numbers, point, point.loss, policy)
    if floored:
        _open_or_raise(numbers, point, SCALE, policy, confirm_at=point.at)


def _finite(numbers: LossState, point: Point, loss: float, policy: RunPolicy) -> None:
    if numbers.trouble.stage in (Stage.SUSPECT, Stage.CONFIRMED):
        _follow(numbers, point, loss, policy)
        return
    seen = usual(numbers, policy)
    if seen is not None and _spikes(numbers, point, loss, seen, policy):
        _open(numbers, point, SPIKE, seen)
        numbers.since = []
        return
    _accept(numbers, point, loss, policy)
    _below(numbers, point, loss, seen, policy)
    _drift(numbers, point, policy)


def _accept(numbers: LossState, point: Point, loss: float, policy: RunPolicy) -> None:
    """Let a normal step into the reference; drift looks further back than the reference does."""
    room = policy.loss_window + policy.loss_drift_steps
    numbers.losses = [*numbers.losses, loss][-room:]
    if point.grad is not None:
        numbers.grads = [*numbers.grads, point.grad][-policy.loss_window :]


def _spikes(numbers: LossState, point: Point, loss: float, seen: Reference, policy: RunPolicy) -> bool:
    """Say whether a step is to be watched: far out, or less far with a gradient norm that agrees."""
    above = (loss - seen.median) / seen.sigma if seen.sigma else 0.0
    if above > policy.loss_alarm_sigma:
        return True
    if above <= policy.loss_watch_sigma or point.grad is None or len(numbers.grads) < policy.loss_min_samples:
        return False
    return point.grad > policy.loss_grad_factor * median(numbers.grads)


def _open(numbers: LossState, point: Point, kind: str, seen: Reference | None) -> Watch:
    watch = _watch(numbers, point, kind, seen)
    retire(numbers, numbers.trouble)
    numbers.trouble = watch
    return watch


def _watch(numbers: LossState, point: Point, kind: str, seen: Reference | None) -> Watch:
    numbers.serial += 1
    return Watch(
        serial=numbers.serial,
        kind=kind,
        stage=Stage.SUSPECT.value,
        onset_step=point.step,
        onset_at=point.at,
        at=point.at,
        loss=point.loss,
        last_loss=point.loss,
        usual=seen,
        sign=_sign(numbers.scale),
    )


def retire(numbers: LossState, watch: Watch) -> None:
    """Keep a judgement that is over until its end has been told."""
    if watch.stage:
        numbers.past = [*numbers.past, watch][-MAX_PAST:]


def _follow(numbers: LossState, point: Point, loss: float, policy: RunPolicy) -> None:
    """Watch whether the loss comes back; if it does not, the suspicion is confirmed."""
    watch = numbers.trouble
    watch.last_loss = loss if watch.stage == Stage.SUSPECT else watch.last_loss
    numbers.since = [*numbers.since, loss][-policy.loss_healed_steps :]
    if len(numbers.since) == policy.loss_healed_steps and _healed(numbers, watch, policy):
        watch.stage, watch.at, watch.end_step = Stage.CLEARED.value, point.at, point.step
        return
    if (
        watch.stage == Stage.SUSPECT
        and watch.kind == SPIKE
        and point.step - watch.onset_step >= policy.loss_watch_steps
    ):
        watch.stage, watch.at, watch.end_step = Stage.CONFIRMED.value, point.at, point.step


def _healed(numbers: LossState, watch: Watch, policy: RunPolicy) -> bool:
    if numbers.scale.at_floor:
        return False
    return watch.usual is None or median(numbers.since) <= watch.usual.median + policy.loss_healed_sigma * (
        watch.usual.sigma
    )


def _broken(numbers: LossState, point: Point, policy: RunPolicy) -> None:
    """Take a loss that is no number; an update that was skipped may still be harmless."""
    numbers.since = []
    sure = not point.skipped or numbers.broken_row >= SKIPPED_ROW
    _open_or_raise(numbers, point, NAN, policy, confirm_at=point.at + policy.settle_s if sure else None)


def other_broken(numbers: LossState, point: Point, policy: RunPolicy) -> None:
    """Take the loss of a rank that speaks for itself alone and is no number."""
    confirm_at = None if point.skipped else point.at + policy.settle_s
    _open_or_raise(numbers, point, NAN, policy, confirm_at=confirm_at)


def _open_or_raise(numbers: LossState, point: Point, kind: str, policy: RunPolicy, *, confirm_at: float | None) -> None:
    """Open a judgement of this kind, or let the one that stands become it; its onset stays."""
    watch = numbers.trouble
    if watch.stage not in (Stage.SUSPECT, Stage.CONFIRMED):
        watch = _open(numbers, point, kind, usual(numbers, policy))
    if watch.stage == Stage.SUSPECT and watch.confirm_at is None:
        watch.kind, watch.confirm_at = kind, confirm_at


def _scale(scale: ScaleState, point: Point, policy: RunPolicy) -> bool:
    """Follow the loss scale; say whether it lies at its floor for the third time within 50 steps.

    A scale that was never above the floor is not a dynamic one, so it means nothing.
    """
    value, before = point.scale, scale.value
    if value is None:
        return False
    if before is not None and value < before and scale.fell_from is None:
        scale.fell_from, scale.fell_step = before, point.step
    elif before is not None and value > before:
        scale.fell_from = None
    scale.value = value
    scale.was_above = scale.was_above or value > policy.loss_scale_floor
    if value <= policy.loss_scale_floor and scale.was_above:
        scale.at_floor.append(point.step)
    scale.at_floor = [step for step in scale.at_floor if step > point.step - SCALE_WINDOW][-SCALE_WINDOW:]
    return len(scale.at_floor) >= policy.loss_scale_times


def _sign(scale: ScaleState) -> str:
    """Give the early sign, if there was one: a loss scale that fell steadily (D-12)."""
    if scale.fell_from is None or scale.value is None or scale.fell_from < SIGN_FALL * scale.value:
        return ""
    return f"the loss scale has fallen from {scale.fell_from:g} to {scale.value:g} since step {scale.fell_step}"


def _below(numbers: LossState, point: Point, loss: float, seen: Reference | None, policy: RunPolicy) -> None:
    """Warn of a loss lower than is plausible; a single lucky batch is none."""
    declared = policy.loss_floor is not None and loss < policy.loss_floor
    full = seen is not None and len(numbers.losses) >= policy.loss_window
    sudden = full and seen is not None and loss < seen.median - policy.loss_below_sigma * seen.sigma
    numbers.low = numbers.low + 1 if declared or sudden else 0
    watch = numbers.below
    if watch.stage == Stage.SUSPECT and not numbers.low:
        watch.stage, watch.at, watch.end_step = Stage.CLEARED.value, point.at, point.step
    elif watch.stage != Stage.SUSPECT and numbers.low >= BELOW_ROW:
        retire(numbers, watch)
        numbers.below = _watch(numbers, point, BELOW, seen)


def _drift(numbers: LossState, point: Point, policy: RunPolicy) -> None:
    """Warn of a slow rise: the median of the last 50 against the losses of 200 steps ago."""
    room = policy.loss_window + policy.loss_drift_steps
    if len(numbers.losses) < room or point.step % DRIFT_EVERY:
        return
    seen = reference(numbers.losses[: policy.loss_window], policy)
    late = median(numbers.losses[-policy.loss_drift_median :])
    watch = numbers.drift
    if watch.stage == Stage.SUSPECT and late <= seen.median + policy.loss_healed_sigma * seen.sigma:
        watch.stage, watch.at, watch.end_step = Stage.CLEARED.value, point.at, point.step
    elif watch.stage != Stage.SUSPECT and late > seen.median + policy.loss_drift_sigma * seen.sigma:
        retire(numbers, watch)
        numbers.drift = _watch(numbers, point, DRIFT, seen)
        numbers.drift.last_loss = late
