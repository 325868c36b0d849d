"""The account of a run as pages show it: kept for some seconds, since a page asks every second."""

import threading
from datetime import datetime, timedelta
from typing import Any

from controlplane.analytics.account import Account, account, life
from controlplane.analytics.sources import milliseconds
from controlplane.domain.errors import Invalid
from controlplane.runs.models import Attempt, Run
from controlplane.web.present import strip

WINDOW = timedelta(hours=24)
KEPT_S = 15
"""An account reads a day of steps; a page that asks again within this time gets the same one."""
MAX_KEPT = 200

_kept: dict[tuple[Any, ...], Account | None] = {}
_lock = threading.Lock()


def of(run: Run, now: datetime) -> Account | None:
    """Account for the last 24 hours of a run; None when it was never launched or made too many steps."""
    newest = Attempt.objects.filter(run=run).order_by("-number").values_list("number", "state").first()
    if newest is None:
        return None
    key = (run.pk, run.state, *newest, int(now.timestamp() // KEPT_S))
    with _lock:
        if key in _kept:
            return _kept[key]
    found = _read(run, now)
    with _lock:
        while len(_kept) >= MAX_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = found
    return found


def _read(run: Run, now: datetime) -> Account | None:
    first, end = life(run, now)
    try:
        return account(run, begin=max(end - WINDOW, first), end=end)
    except Invalid:
        return None


def goodput(run: Run, now: datetime) -> str:
    """Say which share of the last 24 hours, or of the run's life, trains."""
    found = of(run, now)
    return f"{100 * found.goodput.productive:.1f} %" if found and found.goodput.elapsed_ms else "–"


def shown(run: Run, now: datetime) -> dict[str, Any]:
    """Return what the strip of a run page shows; empty before the first launch."""
    found = of(run, now)
    if found is None or not found.goodput.elapsed_ms:
        return {"strip": []}
    begin, end = milliseconds(found.begin), milliseconds(found.end)
    parts = strip.parts(found.goodput.by_label_ms, found.goodput.elapsed_ms)
    return {
        "strip": strip.pieces(found.spans, begin, end),
        "strip_parts": parts,
        "strip_words": strip.spoken(parts),
        "strip_begin": found.begin,
        "strip_end": found.end,
        "goodput": f"{100 * found.goodput.productive:.1f} %",
        "reliability": found.reliability,
    }
