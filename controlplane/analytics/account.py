"""The account of a run over a window: one label for every instant, and how reliable it was.

It stands above incidents and runbooks because a trouble is theirs, and a step counts
for good only once a durable checkpoint lies behind it; they have to be read together.
"""

from dataclasses import dataclass
from datetime import datetime

from controlplane.analytics import sources
from controlplane.analytics.sources import milliseconds
from controlplane.checkpoints import queries as checkpoints
from controlplane.domain.accounting.claims import claims
from controlplane.domain.accounting.goodput import Goodput, goodput, label_steps
from controlplane.domain.accounting.intervals import Span, partition
from controlplane.domain.accounting.reliability import Reliability, reliability
from controlplane.runs.models import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """`spans` cover [begin, end) without gap or overlap; `queued_ms` is before the first start."""

    begin: datetime
    end: datetime
    goodput: Goodput
    spans: tuple[Span, ...]
    reliability: Reliability
    queued_ms: int

    @property
    def ettr(self) -> float:
        """Share of productive time in the window and the queueing before it (methods 5)."""
        whole = self.goodput.elapsed_ms + self.queued_ms
        return self.goodput.productive * self.goodput.elapsed_ms / whole if whole else 0.0


def account(run: Run, *, begin: datetime, end: datetime) -> Account:
    """Account for [begin, end) of `run`.

    Raises:
        Invalid: the window holds more than `sources.MAX_STEPS` steps.
    """
    facts = sources.attempts(run, begin, end)
    first, last = milliseconds(begin), milliseconds(end)
    works = [item.work for item in facts]
    durable = checkpoints.restore_point(run).step
    other = claims(facts, until=last)
    spans = partition([*label_steps(works, durable_step=durable), *other], first, last)
    started = min((item.began for item in facts), default=first)
    return Account(
        begin=begin,
        end=end,
        goodput=goodput(works, begin=first, end=last, durable_step=durable, other=other),
        spans=tuple(spans),
        reliability=reliability(facts),
        queued_ms=max(0, min(started, first) - milliseconds(run.created_at)),
    )


def life(run: Run, now: datetime) -> tuple[datetime, datetime]:
    """Give the window from a run's first launch to its end, or to `now`."""
    attempts = run.attempts.order_by("number")
    first, last = attempts.first(), attempts.last()
    over = run.state in ("completed", "stopped") and last is not None and last.exited_at is not None
    return first.started_at if first else now, last.exited_at if over and last and last.exited_at else now
