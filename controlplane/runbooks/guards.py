"""Durable token buckets and counts: what was spent stays spent through every restart.

A token is spent under a key made of run, attempt and incident, so a retry after a
crash takes no second one (methods 8).
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.guards import TokenBucket, runs_at_once
from controlplane.runbooks.models import Bucket, BucketSpend
from controlplane.runs.models import Run
from controlplane.runs.queries import awake
from controlplane.runs.times import moment, seconds

RUNS_LOCK = 6_271_004
"""Names the lock among PostgreSQL's advisory ones."""


def bucket_of(run: Run, policy: RunPolicy, now: datetime) -> TokenBucket:
    """Return the restarts that a run has left, without spending one."""
    row = Bucket.objects.filter(name=name_of(run)).first()
    return _pure(row, policy) if row else TokenBucket.full(policy, seconds(now))


def spent(key: str) -> bool:
    """Tell whether a token was taken under `key`."""
    return BucketSpend.objects.filter(key=key).exists()


def spend(run: Run, policy: RunPolicy, key: str, now: datetime) -> bool:
    """Spend one restart under `key`, once; False when none is left. Part of the caller's transaction."""
    full = TokenBucket.full(policy, seconds(now))
    Bucket.objects.get_or_create(name=name_of(run), defaults={"tokens": full.tokens, "refilled_at": now})
    row = Bucket.objects.select_for_update(no_key=True).get(name=name_of(run))
    if spent(key):
        return True
    there, after = _pure(row, policy).take(seconds(now))
    if there:
        BucketSpend.objects.create(bucket=row, key=key, at=now, emptied=not after.has_token(seconds(now)))
    Bucket.objects.filter(pk=row.pk).update(tokens=after.tokens, refilled_at=moment(after.refilled_at))
    return there


def one_at_a_time() -> None:
    """Let whoever asks how many runs were touched be the only one to ask until its transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [RUNS_LOCK])


def runs_touched(run: Run | None, policy: RunPolicy, now: datetime) -> int:
    """Count the other runs (None: all) that automation began to act on within the blast window."""
    since = now - timedelta(seconds=policy.blast_window_s)
    lately = BucketSpend.objects.filter(at__gt=since)
    if run is not None:
        lately = lately.exclude(bucket__name=name_of(run))
    return lately.values("bucket").distinct().count()


def most_runs(touched: int = 0) -> int:
    """How many runs automation may act on within the blast window without a person.

    While fewer were `touched` than are always allowed nobody counts the others.
    """
    floor = int(settings.RUNS_AT_ONCE)
    return floor if touched < floor else runs_at_once(awake().count(), floor=floor)


def empties(run: Run, since: datetime) -> int:
    """Count how often all restarts of a run were spent."""
    return BucketSpend.objects.filter(bucket__name=name_of(run), emptied=True, at__gt=since).count()


def name_of(run: Run) -> str:
    """Name the bucket of a run."""
    return f"run:{run.pk}"


def _pure(row: Bucket, policy: RunPolicy) -> TokenBucket:
    return TokenBucket(
        capacity=float(policy.restart_capacity), refill_s=policy.restart_refill_s,
        tokens=row.tokens, refilled_at=seconds(row.refilled_at),
    )  # fmt: skip
