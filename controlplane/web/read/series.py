"""Numbers for charts: step time, throughput and loss, and the marks on them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.queries import StepPoint, step_series
from controlplane.incidents.models import Incident
from controlplane.runs.models import Run

MAX_POINTS = 2000
LIVE_POINTS = 60
LIVE_WINDOW = timedelta(seconds=15)
MAX_MARKS = 200
RATE_POINTS = 8


def whole(run: Run, since: datetime | None) -> dict[str, Any]:
    """Return the newest points of a run, received after `since`, and the marks among them."""
    points = step_series(run.name, since=since, limit=MAX_POINTS)
    begin = datetime.fromtimestamp(points[0].at, UTC) if points else None
    return {**columns(points), "marks": marks(run, begin) if begin else []}


def newest(name: str) -> dict[str, Any]:
    """Return the points of the last seconds; a page drops those that it has."""
    return columns(step_series(name, since=datetime.now(UTC) - LIVE_WINDOW, limit=LIVE_POINTS))


def columns(points: Sequence[StepPoint]) -> dict[str, Any]:
    """Turn points into the columns that a chart takes; what was not measured or is not finite is null."""
    return {
        "at": [round(point.at, 3) for point in points],
        "step": [point.step for point in points],
        "duration_ms": [_finite(point.duration_ms) for point in points],
        "rate": [rate_of(point) for point in points],
        "loss": [_finite(point.loss) for point in points],
        "unit": unit(points),
    }


def unit(points: Sequence[StepPoint]) -> str:
    """Name what the rate counts."""
    return "tokens/s" if any(point.tokens for point in points) else "steps/s"


def rate_of(point: StepPoint) -> float | None:
    """Return tokens per second of one step, or steps per second when tokens were not told."""
    duration = _finite(point.duration_ms)
    if not duration or duration <= 0:
        return None
    return round((point.tokens or 1) * 1000 / duration, 3)


def rate(points: Sequence[StepPoint]) -> float | None:
    """Return the median rate of the last few points."""
    rates = sorted(value for point in points[-RATE_POINTS:] if (value := rate_of(point)) is not None)
    return rates[len(rates) // 2] if rates else None


def marks(run: Run, begin: datetime) -> list[dict[str, Any]]:
    """Return the incidents and complete checkpoints since `begin`."""
    incidents = Incident.objects.filter(run=run, began_at__gte=begin).order_by("-began_at")[:MAX_MARKS]
    saved = Checkpoint.objects.filter(run=run, completed_at__gte=begin).order_by("-completed_at")[:MAX_MARKS]
    told = [
        {
            "at": one.began_at.timestamp(),
            "kind": "incident",
            "label": one.klass.replace("_", " "),
            "url": f"/incidents/{one.pk}/",
        }
        for one in incidents
    ]
    told += [
        {"at": one.completed_at.timestamp(), "kind": "checkpoint", "label": f"step {one.step}"}
        for one in saved
        if one.completed_at
    ]
    return sorted(told, key=lambda mark: float(str(mark["at"])))


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
