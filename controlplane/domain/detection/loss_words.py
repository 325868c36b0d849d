"""Say what is known of numerical trouble: sentence, evidence and facts of each judgement."""

from controlplane.domain.detection import weights
from controlplane.domain.detection.loss_state import BELOW, DRIFT, NAN, SCALE, SPIKE, LossState, Watch
from controlplane.domain.detection.loss_steps import region
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-12"
KLASS = "loss_anomaly"
BEFORE_S = 60.0
MANY_RANKS = 4
MAX_NAMED = 64
SEVERAL = 2

FINGERPRINTS = {
    SPIKE: "loss spike",
    NAN: "loss not finite",
    SCALE: "loss scale at its floor",
    DRIFT: "loss drift",
    BELOW: "loss below what is plausible",
}

_HEALING = (
    "the loss of run {run} has a spike at step {onset}: {loss} against {usual}; "
    "it is watched for {patience} steps whether it heals"
)
_WORDS = {
    SPIKE: "the loss of run {run} did not heal within {patience} steps of its spike at step {onset}: "
    "{last} against {usual}",
    NAN: "the loss of run {run} is no finite number at step {onset}",
    SCALE: "the loss scale of run {run} lies at its floor of {floor}; the trouble began at step {onset}",
    DRIFT: "the loss of run {run} rises slowly: {last} at step {onset} against {usual} {span} steps earlier",
    BELOW: "the loss of run {run} is lower than is plausible: {loss} at step {onset} against {usual}",
}
_OVER = {
    SPIKE: "the loss of run {run} recovered by itself from its spike at step {onset} by step {end}",
    NAN: "the loss of run {run} became a finite number again after step {onset}, in order by step {end}",
    SCALE: "the loss scale of run {run} left its floor; the trouble began at step {onset} and was over by step {end}",
    DRIFT: "the loss of run {run} rises no more at step {end}",
    BELOW: "the loss of run {run} came back to what is usual by step {end}",
}
_WENT_BACK = "run {run} went back to step {end}, before the trouble of its loss at step {onset}"


def finding(state: RunState, attempt: AttemptState, watch: Watch, policy: RunPolicy) -> Finding:
    """Put a judgement into a finding."""
    cleared, confirmed = watch.stage == Stage.CLEARED, watch.stage == Stage.CONFIRMED
    return Finding(
        key=f"{state.run}/{attempt.number}/loss/{watch.serial}",
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage(watch.stage),
        entity="workload",
        began=watch.onset_at,
        at=watch.at,
        run=state.run,
        attempt=attempt.number,
        severity="info" if cleared else "critical" if confirmed else "warning",
        sentence=_over(state, watch) if cleared else _sentence(state, watch, policy),
        evidence=() if cleared else _evidence(state, attempt, watch),
        facts=_facts(state, attempt, watch, policy),
    )


def _sentence(state: RunState, watch: Watch, policy: RunPolicy) -> str:
    words = _HEALING if watch.kind == SPIKE and watch.stage == Stage.SUSPECT else _WORDS[watch.kind]
    return words.format(
        run=state.run,
        onset=watch.onset_step,
        loss=_n(watch.loss),
        last=_n(watch.last_loss),
        usual=_usual(watch),
        floor=f"{policy.loss_scale_floor:g}",
        patience=policy.loss_watch_steps,
        span=policy.loss_drift_steps,
    )


def _over(state: RunState, watch: Watch) -> str:
    words = _WENT_BACK if watch.end_step < watch.onset_step else _OVER[watch.kind]
    return words.format(run=state.run, onset=watch.onset_step, end=watch.end_step)


def _n(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _usual(watch: Watch) -> str:
    return "no reference yet" if watch.usual is None else f"a median of {watch.usual.median:.4g}"


def _evidence(state: RunState, attempt: AttemptState, watch: Watch) -> tuple[Evidence, ...]:
    numbers = state.numbers
    lines = [_main(state.run, attempt, numbers, watch)]
    if watch.sign:
        lines.append(_line(watch, "workload", weights.EARLY_SIGN, watch.sign, "loss scale"))
    return tuple(lines)


def _main(run: str, attempt: AttemptState, numbers: LossState, watch: Watch) -> Evidence:
    """Give the line that carries the judgement; a rank is named only when it is alone among many."""
    kind, what = FINGERPRINTS[watch.kind], f"of step {watch.onset_step} of run {run}"
    if watch.kind == NAN:
        alone = single(attempt, numbers, watch)
        if alone is not None:
            text = f"rank {alone} alone reports a loss or gradient that is no finite number"
            return _line(watch, f"rank:{alone}", weights.ALONE_NOT_FINITE, text, kind)
        text = f"{_who(attempt, numbers, watch)}the loss {what} is no finite number"
        return _line(watch, "workload", weights.NUMERICS, text, kind)
    if watch.kind == SCALE:
        return _line(
            watch, "workload", weights.NUMERICS, "the loss scale reached its floor three times within 50 steps", kind
        )
    text = f"the loss {what} is {_n(watch.loss)}{_spread(watch)}"
    return _line(watch, "data", weights.NUMERICS if watch.stage == Stage.CONFIRMED else weights.EARLY_SIGN, text, kind)


def _spread(watch: Watch) -> str:
    if watch.usual is None or watch.loss is None or not watch.usual.sigma:
        return ""
    return (
        f", {abs(watch.loss - watch.usual.median) / watch.usual.sigma:.0f} times its usual spread from {_usual(watch)}"
    )


def _line(watch: Watch, entity: str, weight: float, text: str, kind: str) -> Evidence:
    return Evidence(at=watch.onset_at, entity=entity, weight=weight, text=text, kind=kind)


def _who(attempt: AttemptState, numbers: LossState, watch: Watch) -> str:
    """Say how many ranks report it, in words that do not change with every further one."""
    count, ranks = len(_broken(numbers, watch)), attempt.world_size or len(attempt.ranks)
    if count < SEVERAL:
        return ""
    return f"all {ranks} ranks report that " if count >= ranks else "several ranks report that "


def _broken(numbers: LossState, watch: Watch) -> list[int]:
    return sorted({*numbers.broken_steps, *_said(numbers, watch)})


def _said(numbers: LossState, watch: Watch) -> list[int]:
    return [rank for rank, at in numbers.said_broken.items() if at >= watch.onset_at - BEFORE_S]


def single(attempt: AttemptState, numbers: LossState, watch: Watch) -> int | None:
    """Give the one rank of many whose numbers broke first.

    A loss is usually the mean over all ranks and told by one, so that one's word names
    nobody: either others told finite losses beside it, or one rank's own log speaks.
    """
    if max(attempt.world_size, len(attempt.ranks)) < MANY_RANKS:
        return None
    first = min(numbers.broken_steps.values(), default=watch.onset_step)
    who = [rank for rank, step in numbers.broken_steps.items() if step == first]
    beside = [rank for rank, step in numbers.finite_steps.items() if step >= first and rank not in who]
    if beside:
        return who[0] if len(who) == 1 else None
    said = _said(numbers, watch)
    return said[0] if len(said) == 1 and said[0] != numbers.reporter else None


def _facts(state: RunState, attempt: AttemptState, watch: Watch, policy: RunPolicy) -> dict[str, object]:
    numbers = state.numbers
    ranks = _broken(numbers, watch)[:MAX_NAMED] if watch.kind == NAN else []
    alone = single(attempt, numbers, watch) if watch.kind == NAN else None
    earlier = region(numbers, watch.onset_step, policy)
    return {
        "onset_step": watch.onset_step,
        "kind": watch.kind,
        "ranks": ranks,
        "places": {str(rank): attempt.ranks[rank].node for rank in ranks if rank in attempt.ranks},
        "resume_step": attempt.resume_step,
        "rollbacks": len(earlier),
        "earlier_onsets": [back.onset_step for back in earlier],
        "supports_skip": "skip_batches" in numbers.supports,
        "transient": alone is not None,
        "fingerprint": FINGERPRINTS[watch.kind],
        "cause": "",
    }
