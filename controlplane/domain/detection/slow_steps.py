"""Judge the steps of rank 0, one after the other, against what a step usually takes (methods 3).

Steps are judged in the order of their numbers, however they arrive: a gap waits for
`REORDER` later steps, then what is still missing is left out for good. Steps of the warm-up
and steps that share time with a declared phase are not judged at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from controlplane.domain.detection import reading, steps
from controlplane.domain.detection.cusum import Chart, robust_sigma
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.slow_state import Alarm, ChartState, Reference, SlowAttempt, SlowState, StepTime
from controlplane.domain.detection.state import AttemptState
from controlplane.domain.findings import Stage
from controlplane.domain.signals import Signal

REORDER = 8
MAX_REFERENCES = 8
MAX_ALARMS = 2
MAX_STEP_S = 86_400.0
REFRESH_EVERY = 4
SAME_TOKENS = 0.05
"""Steps whose number of tokens differs by more are not compared: their time is another one by right."""
RECENT = 64
NOTICE_STEPS = 64
NOTICE_SHARE = 0.015
"""The small chart alone would speak tens of times a month where slowness comes and goes; what it says must last."""
BACK_STEPS = 20
MOVED_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One step that is judged: `excess` 0.05 means 5 % longer than usual."""

    step: int
    excess: float
    began: float
    received: float


def take(slow: SlowState, attempt: AttemptState, signal: Signal, policy: RunPolicy) -> None:
    """Take in one step of rank 0 and judge all that have their turn."""
    mine, step = slow.attempt, reading.integer(signal.data, "step")
    if signal.rank != 0 or step is None or step < 0:
        return
    if attempt.rewinds != mine.rewinds:
        _rewind(mine, attempt, step)
    if step <= mine.done_step or step in mine.pending:
        return
    mine.pending[step] = _read(signal)
    while (turn := _turn(mine)) is not None:
        _judge(slow, attempt, turn, mine.pending.pop(turn), policy)


def _read(signal: Signal) -> StepTime:
    duration_ms, tokens = reading.number(signal.data, "duration_ms"), reading.number(signal.data, "tokens")
    return StepTime(
        duration_s=None if duration_ms is None else duration_ms / 1000,
        tokens=max(0.0, tokens or 0.0),
        at_ms=signal.at_ms,
        received=signal.received,
    )


def _rewind(mine: SlowAttempt, attempt: AttemptState, step: int) -> None:
    """The counter went back: the steps from here on are judged as new ones."""
    mine.rewinds, mine.done_step = attempt.rewinds, step - 1
    mine.pending = {}
    mine.main, mine.notice = ChartState(), ChartState()


def _turn(mine: SlowAttempt) -> int | None:
    """Give the step to judge next, None while an earlier one may still arrive."""
    if not mine.pending:
        return None
    first = min(mine.pending)
    follows = first == mine.done_step + 1
    return first if follows or len(mine.pending) > REORDER else None


def _judge(slow: SlowState, attempt: AttemptState, step: int, time: StepTime, policy: RunPolicy) -> None:
    mine = slow.attempt
    duration_s = time.duration_s
    if duration_s is None and step == mine.done_step + 1 and mine.done_ms:
        duration_s = (time.at_ms - mine.done_ms) / 1000
    mine.done_step, mine.done_ms = step, time.at_ms
    if duration_s is None or not 0 < duration_s <= MAX_STEP_S or not _counts(attempt, step, duration_s, time, policy):
        return
    reference = slow.references.get(slow.key)
    if reference is not None and not _comparable(reference, time.tokens):
        _other_tokens(slow, duration_s, time.tokens, policy)
        return
    mine.other_tokens = []
    per = _tokens(mine, reference, time.tokens)
    if per is None:
        return
    unit_s = duration_s / (per or 1.0)
    if reference is not None:
        excess, began = unit_s / reference.unit_s - 1, time.received - duration_s
        _chart(slow, reference, Counted(step=step, excess=excess, began=began, received=time.received), policy)
    _learn(slow, unit_s, per, policy)


def _counts(attempt: AttemptState, step: int, duration_s: float, time: StepTime, policy: RunPolicy) -> bool:
    if step < (attempt.first_step or 0) + policy.warmup_steps:
        return False
    if steps.overlaps(attempt, duration_s, time.at_ms):
        return False
    leader = attempt.ranks.get(0)
    return leader is None or not (
        leader.phase.open and leader.phase.name != "train" and leader.phase.began_ms < time.at_ms
    )


def _tokens(mine: SlowAttempt, reference: Reference | None, tokens: float) -> float | None:
    """Give the tokens to divide a step's time by: 0 to judge whole steps, None when it cannot be judged."""
    if reference is not None:
        return (tokens or reference.tokens) if reference.tokens else 0.0
    if not mine.fresh:
        mine.by_token = tokens > 0
    if not mine.by_token:
        return 0.0
    return tokens or None


def _comparable(reference: Reference, tokens: float) -> bool:
    if not tokens or not reference.tokens:
        return True
    return abs(tokens / reference.tokens - 1) <= SAME_TOKENS


def _other_tokens(slow: SlowState, duration_s: float, tokens: float, policy: RunPolicy) -> None:
    """Begin a new reference when the batch has another size for good."""
    mine = slow.attempt
    mine.other_tokens.append([duration_s / tokens, tokens])
    if len(mine.other_tokens) < policy.slow_min_samples:
        return
    mine.fresh, mine.learned = [unit for unit, _ in mine.other_tokens], False
    middle = median(tokens for _, tokens in mine.other_tokens)
    mine.other_tokens = []
    mine.main, mine.notice, mine.recent = ChartState(), ChartState(), []
    for alarm in mine.alarms:
        alarm.stage = alarm.stage and Stage.CLEARED.value
    del slow.references[slow.key]
    _refer(slow, middle, policy)


def _learn(slow: SlowState, unit_s: float, tokens: float, policy: RunPolicy) -> None:
    """Add one step to what is usual; never during an alarm."""
    mine = slow.attempt
    if mine.learned or standing(mine) is not None:
        return
    mine.fresh.append(unit_s)
    count = len(mine.fresh)
    mine.learned = count >= policy.slow_window
    if mine.learned or (count >= policy.slow_min_samples and count % REFRESH_EVERY == 0):
        _refer(slow, tokens, policy)
    if mine.learned:
        mine.fresh = []


def _refer(slow: SlowState, tokens: float, policy: RunPolicy) -> None:
    """Bring the reference up to the steps of this attempt; an earlier attempt's only gives way to nearly the same."""
    mine, known = slow.attempt, slow.references.get(slow.key)
    middle = median(mine.fresh)
    if known is not None and known.attempt != mine.number:
        moved = abs(middle / known.unit_s - 1) > policy.slow_back_share
        if moved or len(mine.fresh) < known.steps:
            return
    sigma = max(policy.slow_sigma_share, robust_sigma(mine.fresh, middle) / middle)
    slow.references.pop(slow.key, None)
    slow.references[slow.key] = Reference(
        unit_s=middle, sigma=sigma, tokens=tokens, steps=len(mine.fresh), attempt=mine.number
    )
    for key in list(slow.references)[:-MAX_REFERENCES]:
        del slow.references[key]


def _chart(slow: SlowState, reference: Reference, counted: Counted, policy: RunPolicy) -> None:
    mine = slow.attempt
    mine.recent = [*mine.recent, counted.excess][-RECENT:]
    _add(main_chart(policy), mine.main, counted, reference.sigma)
    _add(notice_chart(policy), mine.notice, counted, reference.sigma)
    alarm = standing(mine)
    if alarm is None or alarm.notice:
        alarm = _raise(slow, alarm, reference, counted.received, policy) or alarm
    if alarm is not None:
        _follow(mine, alarm, reference, counted.received, policy)


def main_chart(policy: RunPolicy) -> Chart:
    """Give the chart that decides."""
    return Chart(k=policy.slow_k_share, h=policy.slow_h_sigmas)


def notice_chart(policy: RunPolicy) -> Chart:
    """Give the chart of small losses, which are told and nothing else."""
    return Chart(k=policy.slow_notice_k_share, h=policy.slow_notice_h_sigmas)


def _add(chart: Chart, held: ChartState, counted: Counted, sigma: float) -> None:
    before, held.total = held.total, chart.add(held.total, counted.excess, sigma)
    if held.total <= 0:
        held.count = 0
    elif before <= 0:
        held.count, held.onset_step, held.began = 1, counted.step, counted.began
    else:
        held.count += 1


def standing(mine: SlowAttempt) -> Alarm | None:
    """Give the alarm that stands, told or not."""
    alarm = mine.alarms[-1] if mine.alarms else None
    return alarm if alarm is not None and alarm.stage != Stage.CLEARED else None


def _raise(slow: SlowState, alarm: Alarm | None, reference: Reference, now: float, policy: RunPolicy) -> Alarm | None:
    """Open an alarm, or turn a notice into one, when a chart speaks; None when none does."""
    mine = slow.attempt
    if main_chart(policy).speaks(mine.main.total, reference.sigma):
        held, notice = mine.main, False
    elif alarm is None and _lasting_notice(mine, reference, policy):
        held, notice = mine.notice, True
    else:
        return None
    if alarm is None:
        slow.serial += 1
        alarm = Alarm(serial=slow.serial, found_at=now)
        mine.alarms = [*mine.alarms, alarm][-MAX_ALARMS:]
    alarm.notice, alarm.stage, alarm.counted = notice, "", 0
    alarm.onset_step, alarm.began, alarm.usual_s = held.onset_step, held.began, reference.step_s
    alarm.share = _share(mine.recent, held.count)
    return alarm


def _lasting_notice(mine: SlowAttempt, reference: Reference, policy: RunPolicy) -> bool:
    held = mine.notice
    speaks = notice_chart(policy).speaks(held.total, reference.sigma)
    return speaks and held.count >= NOTICE_STEPS and median(mine.recent[-NOTICE_STEPS:]) >= NOTICE_SHARE


def _share(recent: Sequence[float], count: int) -> float:
    return max(0.0, median(recent[-max(1, min(count, BACK_STEPS)) :]))


def _follow(mine: SlowAttempt, alarm: Alarm, reference: Reference, now: float, policy: RunPolicy) -> None:
    """Tell, confirm or take back an alarm as further steps come in."""
    alarm.counted += 1
    if alarm.counted >= BACK_STEPS and median(mine.recent[-BACK_STEPS:]) <= policy.slow_back_share:
        _clear(mine, alarm, now)
        return
    count = (mine.notice if alarm.notice else mine.main).count
    if not alarm.stage and now - alarm.began >= policy.slow_least_s:
        alarm.stage, alarm.found_at = Stage.SUSPECT.value, now
    if alarm.stage == Stage.SUSPECT and not alarm.notice and count >= policy.slow_confirm_steps:
        _confirm(mine, alarm, now, policy)
    share = _share(mine.recent, count)
    if abs(share - alarm.share) > MOVED_SHARE and count >= BACK_STEPS:
        alarm.share, alarm.usual_s = share, reference.step_s


def _confirm(mine: SlowAttempt, alarm: Alarm, now: float, policy: RunPolicy) -> None:
    share = median(mine.recent[-policy.slow_confirm_steps :])
    if share > policy.slow_k_share:
        alarm.stage, alarm.found_at, alarm.share = Stage.CONFIRMED.value, now, share


def _clear(mine: SlowAttempt, alarm: Alarm, now: float) -> None:
    mine.main, mine.notice = ChartState(), ChartState()
    if alarm.stage:
        alarm.stage, alarm.found_at = Stage.CLEARED.value, now
    else:
        mine.alarms.remove(alarm)
