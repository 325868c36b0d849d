"""Whether the spares last until replacements come (methods 6, D-20).

Nodes in repair are Poisson distributed around rate times lead time; a machine that
comes back broken waits again, which makes the lead time longer. Groups of nodes that
fail together come on top.
"""

from dataclasses import dataclass

from controlplane.domain.detection.policy import DAY_S
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.fleet.rates import Rate, failure_rate, poisson_sf

DETECTOR = "D-20"
KEY = "fleet/spares"
TOLERANCE = 0.01
LEAD_S = 8 * 3600.0
MAX_SPARES = 10_000
MAX_REPEAT = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The pool as it is now. `nodes` train, `spares` may join them at once, `size` is how many spares there ever were.

    `failures` were seen in the last `days`; `lead_s` is the time until a replacement is
    ready; `repeat` the share of replacements that are broken again; `burst` the most
    nodes that failed together, where that happens as often as the tolerance allows.
    """

    nodes: int
    spares: int
    size: int
    failures: int = 0
    days: float = 0.0
    lead_s: float = LEAD_S
    repeat: float = 0.0
    burst: int = 0


def stock_out(rate: float, lead: float, spares: int) -> float:
    """Give the chance that more than `spares` nodes wait for repair; `rate` and `lead` share their unit of time."""
    return poisson_sf(spares, max(0.0, rate * lead))


def effective_lead(lead: float, repeat: float) -> float:
    """Give the lead time when a share `repeat` of the replacements has to be replaced again."""
    return lead / (1 - min(max(repeat, 0.0), MAX_REPEAT))


def recommended(rate: float, lead: float, *, tolerance: float = TOLERANCE, burst: int = 0) -> int:
    """Give the fewest spares that run out with a chance of at most `tolerance`, and the largest burst on top."""
    low, high = 0, 1
    while high < MAX_SPARES and stock_out(rate, lead, high) > tolerance:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if stock_out(rate, lead, middle) <= tolerance else (middle + 1, high)
    return min(low, MAX_SPARES) + burst


def rate_of(pool: Pool) -> Rate:
    """Give the failures per day of the pool's training nodes."""
    return failure_rate(pool.failures, pool.days, pool.nodes)


def needed(pool: Pool, *, tolerance: float = TOLERANCE) -> int:
    """Give how many spares the pool needs for one lead time."""
    lead_days = effective_lead(pool.lead_s, pool.repeat) / DAY_S
    return recommended(rate_of(pool).mean, lead_days, tolerance=tolerance, burst=pool.burst)


def judge_spares(pool: Pool, now: float, *, standing: float | None = None) -> Finding | None:
    """Give the warning, its end, or None when there is nothing to say.

    `standing` is when a warning that still stands began. It ends only with spares enough
    for half the tolerance or a full pool, so that one at the edge does not flap. A fleet
    that never had a spare has chosen to do without.
    """
    if pool.nodes <= 0 or (pool.size <= 0 and standing is None):
        return None
    need = needed(pool)
    sure = need if standing is None else min(needed(pool, tolerance=TOLERANCE / 2), max(need, pool.size))
    if pool.spares < sure:
        return _low(pool, sure, now if standing is None else standing, now)
    return None if standing is None else _enough(pool, standing, now)


def _low(pool: Pool, need: int, began: float, now: float) -> Finding:
    rate, lead_days = rate_of(pool), effective_lead(pool.lead_s, pool.repeat) / DAY_S
    chance = stock_out(rate.mean, lead_days, pool.spares)
    text = f"{pool.spares} usable spares for {pool.nodes} nodes; {rate.mean:.2g} failures a day are expected"
    return _finding(
        Stage.CONFIRMED,
        began,
        now,
        sentence=f"{pool.spares} usable spares are left and {need} are needed: they run out with a chance of "
        f"{chance:.0%} before a replacement comes in {24 * lead_days:.3g} h",
        evidence=(Evidence(at=now, entity="platform", weight=0.0, text=text, kind="spares"),),
        facts={"spares": pool.spares, "needed": need, "chance": round(chance, 4), "rate_per_day": round(rate.mean, 4)},
    )


def _enough(pool: Pool, began: float, now: float) -> Finding:
    sentence = f"{pool.spares} usable spares are enough again"
    return _finding(Stage.CLEARED, began, now, sentence=sentence, evidence=(), facts={"spares": pool.spares})


def _finding(
    stage: Stage,
    began: float,
    now: float,
    *,
    sentence: str,
    evidence: tuple[Evidence, ...],
    facts: dict[str, object],
) -> Finding:
    return Finding(
        key=KEY,
        detector=DETECTOR,
        klass="spares_low",
        stage=stage,
        entity="platform",
        began=began,
        at=now,
        severity="warning" if stage is Stage.CONFIRMED else "info",
        sentence=sentence,
        evidence=evidence,
        facts={"fingerprint": "spares", "cause": "", **facts},
    )
