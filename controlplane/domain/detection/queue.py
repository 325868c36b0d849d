"""Watch a run's place in the queue and the end of its allocation (D-17).

Under a reservation of one's own a job has nothing to wait for, so waiting is an alarm.
Everything else here is a warning hours ahead. Nothing of it acts or blames a node.
"""

from controlplane.domain.detection import queue_ends, reading
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.queue_state import AT_WORK, PENDING, Alarm, Job, Judged, Notice, QueueState
from controlplane.domain.detection.state import MAX_NODES, RunState
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-17"
KINDS = frozenset({"scheduler.job", "capacity.notice"})
MAX_JOBS = 64
MAX_COUNT = 10_000
OURS = "middlewatch"

WAITING = "waiting"
SUCCESSORS = "successors"
ALLOCATION = "allocation"
CANCELLED = "cancelled"
ENDED = queue_ends.SORT


def take(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in the state of a job, or the announced end of the allocation."""
    if signal.kind == "scheduler.job":
        if signal.run == state.run:
            _job(state.queue, signal)
    elif reading.text(signal.data, "what") == "allocation_end" and _is_ours(state, signal):
        _notice(state.queue, signal)


def _is_ours(state: RunState, signal: Signal) -> bool:
    """Say whether a notice names this run, a node of it, or nothing at all."""
    names = reading.names(signal.data, "nodes", MAX_NODES)
    return signal.run == state.run or not names or any(name in state.nodes for name in names)


def _job(queue: QueueState, signal: Signal) -> None:
    name, word = reading.text(signal.data, "job_id"), reading.text(signal.data, "state").upper()
    job = queue.jobs.get(name)
    if not word or (job is not None and signal.said_ms < job.at_ms):
        return
    if job is None:
        _make_room(queue)
        job = queue.jobs[name] = Job()
    job.since = _since(job, signal) if word == PENDING else None
    job.at = signal.received if word != job.state else job.at
    job.state, job.at_ms, job.heard_at = word, signal.said_ms, signal.received
    job.reason, job.by = reading.text(signal.data, "reason"), reading.text(signal.data, "by")
    told, count = signal.data.get("exclusive"), _count(signal)
    job.exclusive = told if isinstance(told, bool) else job.exclusive
    job.successors = job.successors if count is None else count


def _since(job: Job, signal: Signal) -> float:
    """Give when the job began to wait: by its own word, and never later than we first heard of it."""
    queued_s = max(0.0, reading.number(signal.data, "queued_s") or 0.0)
    return min(signal.received - queued_s, signal.received if job.since is None else job.since)


def _count(signal: Signal) -> int | None:
    """Give the number of successors, told as a number or as a list of jobs; None when it was not told."""
    told = signal.data.get("successors")
    count = len(told) if isinstance(told, (list, tuple)) else reading.integer(signal.data, "successors")
    return None if count is None or count < 0 else min(count, MAX_COUNT)


def _make_room(queue: QueueState) -> None:
    if len(queue.jobs) >= MAX_JOBS:
        oldest = min(queue.jobs, key=lambda name: (queue.jobs[name].state in {*AT_WORK, PENDING}, queue.jobs[name].at))
        del queue.jobs[oldest]


def _notice(queue: QueueState, signal: Signal) -> None:
    ends_ms = reading.number(signal.data, "begins_at_ms")
    ends_ms = reading.number(signal.data, "ends_at_ms") if ends_ms is None else ends_ms
    if ends_ms is not None and (queue.notice is None or signal.at_ms > queue.notice.at_ms):
        queue.notice = Notice(ends_at=ends_ms / 1000, at=signal.received, at_ms=signal.at_ms)


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give the alarms that hold, and take back those that no longer do."""
    queue = state.queue
    rules = (_waits, _alone, _ends, queue_ends.unfollowed)
    judged = [item for rule in rules if (item := rule(state, policy, now)) is not None]
    judged += _cancelled(state, policy, now)
    found = [_finding(state, item, now) for item in judged]
    holding = {item.sort for item in judged}
    ended = [sort for sort in queue.standing if sort not in holding]
    return [*found, *(_over(state.run, sort, queue.standing.pop(sort), now) for sort in ended)]


def _at_work(state: RunState) -> tuple[str, Job] | None:
    """Give the job at work: the newest one, unless the attempt has ended since."""
    ended_at = state.attempt.ended_at if state.attempt is not None else None
    jobs = [
        (job.at_ms, name)
        for name, job in state.queue.jobs.items()
        if job.state in AT_WORK and (ended_at is None or job.at > ended_at)
    ]
    name = max(jobs)[1] if jobs else None
    return None if name is None else (name, state.queue.jobs[name])


def _waiting(state: RunState) -> tuple[str, Job, float] | None:
    """Give the job that waits longest under a reservation of its own while none is at work."""
    jobs = state.queue.jobs
    waiting = [(job.since, name) for name, job in jobs.items() if job.exclusive and job.since is not None]
    if not waiting or _at_work(state) is not None:
        return None
    since, name = min(waiting)
    return name, jobs[name], since


def _waits(state: RunState, policy: RunPolicy, now: float) -> Judged | None:
    waiting = _waiting(state)
    if waiting is None or now - waiting[2] < policy.queue_pending_s:
        return None
    name, job, since = waiting
    because = f" ({job.reason})" if job.reason else ""
    critical = now - since >= policy.queue_critical_s
    limit = policy.queue_critical_s if critical else policy.queue_pending_s
    return Judged(
        sort=WAITING,
        klass="capacity",
        severity="critical" if critical else "warning",
        began=since,
        sentence=f"job {name or 'without a number'} of run {state.run} has waited for more than {limit / 60:.0f} min "
        f"under a reservation of its own{because}",
    )


def _alone(state: RunState, policy: RunPolicy, _now: float) -> Judged | None:
    """Tell a thin queue, unless a person thinned it out."""
    working = _at_work(state)
    if working is None:
        return None
    name, job = working
    count = job.successors
    if count is None or count >= policy.queue_successors or _thinned(state.queue, job):
        return None
    return Judged(
        sort=SUCCESSORS,
        klass="scheduler",
        severity="warning",
        began=job.at,
        sentence=f"{count or 'no'} job{'' if count == 1 else 's'} of run {state.run} wait{'s' if count == 1 else ''} "
        f"behind job {name}; {policy.queue_successors} should",
    )


def _thinned(queue: QueueState, working: Job) -> bool:
    """Say whether somebody else cancelled a job of the run since the one at work began: it is not put back."""
    return any(job.state == "CANCELLED" and job.by != OURS and job.at >= working.at for job in queue.jobs.values())


def _ends(state: RunState, policy: RunPolicy, now: float) -> Judged | None:
    notice = state.queue.notice
    if notice is None or not notice.ends_at - policy.queue_end_s <= now < notice.ends_at:
        return None
    working = _at_work(state)
    if working is not None and (working[1].successors or 0) > 0:
        return None
    return Judged(
        sort=ALLOCATION,
        klass="capacity",
        severity="warning",
        began=max(notice.at, notice.ends_at - policy.queue_end_s),
        sentence=f"the allocation of run {state.run} ends within {policy.queue_end_s / 3600:.0f} h "
        "and no job is known to follow",
    )


def _cancelled(state: RunState, policy: RunPolicy, now: float) -> list[Judged]:
    """Tell a cancellation by a person for a moment: it is no trouble, and nothing follows (methods 11.21)."""
    ended = [(name, job) for name, job in sorted(state.queue.jobs.items()) if _is_told(job, policy, now)]
    return [
        Judged(
            sort=f"{CANCELLED}/{name}",
            klass="scheduler",
            severity="info",
            began=job.at,
            sentence=f"job {name} of run {state.run} was cancelled by {job.by or 'somebody outside'}, "
            "so it is not restarted",
        )
        for name, job in ended
    ]


def _is_told(job: Job, policy: RunPolicy, now: float) -> bool:
    return job.state == "CANCELLED" and job.by != OURS and now < job.at + policy.settle_s


def _finding(state: RunState, judged: Judged, now: float) -> Finding:
    queue = state.queue
    alarm = queue.standing.get(judged.sort)
    if alarm is None:
        queue.serial += 1
        key = f"{state.run}/queue/{queue.serial}"
        alarm = queue.standing[judged.sort] = Alarm(key=key, klass=judged.klass, began=judged.began)
    return Finding(
        key=alarm.key,
        detector=DETECTOR,
        klass=judged.klass,
        stage=Stage.SUSPECT if judged.severity == "info" else Stage.CONFIRMED,
        entity="platform",
        began=alarm.began,
        at=now,
        run=state.run,
        severity=judged.severity,
        sentence=judged.sentence,
        evidence=(Evidence(at=judged.began, entity="platform", weight=0.0, text=judged.sentence, kind=judged.sort),),
        facts={"kind": judged.sort.partition("/")[0], "fingerprint": judged.sort.partition("/")[0], "cause": ""},
    )


OVER = {
    WAITING: "no job of run {run} waits under its reservation any more",
    SUCCESSORS: "enough jobs of run {run} wait behind the running one, or none runs",
    ALLOCATION: "a job follows when the allocation of run {run} ends, or that end has passed",
    ENDED: "run {run} was launched again, or a job follows",
    CANCELLED: "a person ended the job of run {run}, so there is nothing to do",
}


def _over(run: str, sort: str, alarm: Alarm, now: float) -> Finding:
    return Finding(
        key=alarm.key,
        detector=DETECTOR,
        klass=alarm.klass,
        stage=Stage.CLEARED,
        entity="platform",
        began=alarm.began,
        at=now,
        run=run,
        severity="info",
        sentence=OVER[sort.partition("/")[0]].format(run=run),
    )


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a wait becomes too long, an end comes near or is reached, or a cancellation has been told."""
    queue = state.queue
    moments = [job.at + policy.settle_s for job in queue.jobs.values() if job.state == "CANCELLED" and job.by != OURS]
    waiting = _waiting(state)
    if waiting is not None:
        moments += [waiting[2] + policy.queue_pending_s, waiting[2] + policy.queue_critical_s]
    if queue.notice is not None:
        moments += [queue.notice.ends_at - policy.queue_end_s, queue.notice.ends_at]
    moments += queue_ends.moments(state, policy, now)
    return min((moment for moment in moments if moment > now), default=None)
