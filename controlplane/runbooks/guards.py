"""Durable token buckets: what was spent stays spent through every restart.

A token is spent under a key made of run, attempt and incident, so a retry after a
crash takes no second one (methods 8).
"""

from datetime import datetime

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.guards import TokenBucket
from controlplane.runbooks.models import Bucket, BucketSpend
from controlplane.runs.models import Run
from controlplane.runs.times import moment, seconds


def bucket_of(run: Run, policy: RunPolicy, now: datetime) -> TokenBucket:
    """Return the restarts that a run has left, without spending one."""
    row = Bucket.objects.filter(name=_name(run)).first()
    return _pure(row, policy) if row else TokenBucket.full(policy, seconds(now))


def spend(run: Run, policy: RunPolicy, key: str, now: datetime) -> bool:
    """Spend one restart under `key`, once; False when none is left. Part of the caller's transaction."""
    full = TokenBucket.full(policy, seconds(now))
    Bucket.objects.get_or_create(name=_name(run), defaults={"tokens": full.tokens, "refilled_at": now})
    row = Bucket.objects.select_for_update(no_key=True).get(name=_name(run))
    if BucketSpend.objects.filter(key=key).exists():
        return True
    there, after = _pure(row, policy).take(seconds(now))
    if there:
        BucketSpend.objects.create(bucket=row, key=key, at=now)
    Bucket.objects.filter(pk=row.pk).update(tokens=after.tokens, refilled_at=moment(after.refilled_at))
    return there


def _pure(row: Bucket, policy: RunPolicy) -> TokenBucket:
    return TokenBucket(
        capacity=float(policy.restart_capacity), refill_s=policy.restart_refill_s,
        tokens=row.tokens, refilled_at=seconds(row.refilled_at),
    )  # fmt: skip


def _name(run: Run) -> str:
    return f"run:{run.pk}"
