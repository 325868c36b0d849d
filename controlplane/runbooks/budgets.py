"""Every guard with what is left of it, in words: nobody should have to guess why automation waits.

Reads alone; the numbers are those that the guards themselves ask.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.conf import settings

from controlplane.domain.chronicle.words import count, duration
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.fleet import removals
from controlplane.domain.recovery.breaker import most_out
from controlplane.domain.recovery.guards import TokenBucket, backoff_s, node_budget, runs_at_once
from controlplane.fleet import queries as fleet
from controlplane.quarantine import queries as quarantine
from controlplane.runbooks import breaker, facts, guards, registry
from controlplane.runs import automation
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.runs.queries import awake
from controlplane.runs.times import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One guard: how much of it is used, how much there is, when more comes back.

    `open` says that automation may act as far as this guard goes. `most` 0 is a guard
    that counts nothing.
    """

    name: str
    words: str
    used: int = 0
    most: int = 0
    refills_at: datetime | None = None
    open: bool = True


def of(run: Run | None, now: datetime) -> list[Budget]:
    """Return the guards of a run, or of the fleet, as they stand at `now`."""
    return list(_of_fleet(now) if run is None else _of_run(run, now))


def _of_run(run: Run, now: datetime) -> Iterator[Budget]:
    policy, standing = runs.policy(run), automation.standing(run)
    past = facts.Past.of(run)
    yield _switch(standing)
    yield _breaker_of_run(run, policy, standing, now)
    yield _bucket("Restarts", "restart", guards.bucket_of(run, policy, now), now)
    yield _pause(past, policy, now)
    yield _ladder(past, policy)
    yield _nodes(run, past, policy, now)
    yield from _own_limits(run, now)


def _of_fleet(now: datetime) -> Iterator[Budget]:
    standing, nodes = automation.standing(None), fleet.all_nodes().count()
    yield _switch(standing)
    yield _breaker_of_fleet(standing, now)
    taken = quarantine.removals(now, timedelta(seconds=removals.horizon_s(nodes)))
    left = removals.bucket(nodes, [at.timestamp() for at in taken], seconds(now))
    yield _bucket("Nodes taken out", "node", left, now)
    yield _in_a_day(standing, nodes, now)
    yield _runs_at_once(now)
    yield _spares()


def _switch(standing: automation.Standing) -> Budget:
    off = standing.why_off
    return Budget(name="Kill switch", words=off or "automation is on", open=not off)


def _bucket(name: str, what: str, bucket: TokenBucket, now: datetime) -> Budget:
    left, most = int(bucket.at(seconds(now)).tokens), int(bucket.capacity)
    waits = (1 - (bucket.at(seconds(now)).tokens % 1)) * bucket.refill_s
    words = f"{left} of {count(most, what)} left"
    if left < most:
        words += f", the next is earned back in {duration(waits)}"
    refills = None if left >= most else now + timedelta(seconds=waits)
    return Budget(name=name, words=words, used=most - left, most=most, refills_at=refills, open=left >= 1)


def _breaker_of_run(run: Run, policy: RunPolicy, standing: automation.Standing, now: datetime) -> Budget:
    record = breaker.record_of(run, policy, standing, now)
    within = duration(policy.breaker_window_s)
    counted = f"{count(record.failed, 'runbook')} failed within {within}; {policy.breaker_failures} open it"
    return Budget(
        name="Breaker", words=standing.why_opened or counted, used=record.failed, most=policy.breaker_failures,
        open=standing.opened is None,
    )  # fmt: skip


def _breaker_of_fleet(standing: automation.Standing, now: datetime) -> Budget:
    record, most = breaker.record_of_fleet(standing, now), settings.BREAKER_RUNS
    counted = f"runbooks failed on {count(record.runs_failed, 'run')} within an hour; {most} open it"
    return Budget(
        name="Breaker of the fleet", words=standing.why_opened or counted, used=record.runs_failed, most=most,
        open=standing.opened is None,
    )  # fmt: skip


def _pause(past: facts.Past, policy: RunPolicy, now: datetime) -> Budget:
    name, vain = "Pause before a restart", past.unsettled(policy, now)
    wait = (past.last_restart_at or 0.0) + backoff_s(vain, policy) - seconds(now)
    if wait <= 0:
        return Budget(name=name, words="the next restart waits for nothing", used=vain)
    words = f"the next restart waits {duration(wait)}: {count(vain, 'restart')} did not hold"
    return Budget(name=name, words=words, used=vain, refills_at=now + timedelta(seconds=wait), open=False)


def _ladder(past: facts.Past, policy: RunPolicy) -> Budget:
    rung, tries = max(past.tries.items(), key=lambda item: item[1], default=("", 0))
    words = f"{tries} of {count(policy.rung_tries, 'launch', 'launches')} of one kind ({rung}) without a checkpoint"
    words = words if tries else "no launch was in vain since the newest checkpoint"
    return Budget(
        name="Ladder", words=words, used=tries, most=policy.rung_tries, open=tries < policy.rung_tries
    )  # fmt: skip


def _nodes(run: Run, past: facts.Past, policy: RunPolicy, now: datetime) -> Budget:
    used, most = len(past.lately_excluded(policy, now)), node_budget(run.nodes_wanted, policy)
    words = f"{used} of {count(most, 'node')} of the run left out within {duration(policy.blast_window_s)}"
    return Budget(name="Nodes of the run", words=words, used=used, most=most, open=used < most)


def _own_limits(run: Run, now: datetime) -> Iterator[Budget]:
    for runbook in registry.catalog().runbooks.values():
        most = runbook.limits.uses
        if most is not None:
            used = facts.uses(run, runbook, now)
            words = f"used {used} of {count(most, 'time')} within {duration(runbook.limits.uses_s)}"
            yield Budget(name=runbook.title, words=words, used=used, most=most, open=used < most)


def _in_a_day(standing: automation.Standing, nodes: int, now: datetime) -> Budget:
    used, most = len(breaker.nodes_out(now, standing.counts_since(None))), most_out(nodes, settings.BREAKER_SHARE)
    words = f"automation took {count(used, 'node')} out within a day; more than {most} open the breaker"
    return Budget(name="Nodes taken out in a day", words=words, used=used, most=most, open=used <= most)


def _runs_at_once(now: datetime) -> Budget:
    used, most = guards.runs_touched(None, RunPolicy(), now), runs_at_once(awake().count(), floor=settings.RUNS_AT_ONCE)
    words = f"automation acted on {used} of {count(most, 'run')} within {duration(RunPolicy().blast_window_s)}"
    return Budget(name="Runs at once", words=words, used=used, most=most, open=used < most)


def _spares() -> Budget:
    free, kept = ceil(facts.spares()), settings.SPARES_KEPT
    words = f"{count(free, 'spare')} may be used on a suspicion" + (f", {kept} more are kept" if kept else "")
    return Budget(name="Spares", words=words, used=0, most=free, open=free > 0)
