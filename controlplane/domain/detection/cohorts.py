"""Find the rank that makes all others wait, from the times that ranks measure themselves (methods 3, locate a).

In synchronous training everybody waits for the slowest, so the culprit has the largest
compute time and the smallest wait. A rank is compared with the ranks of its pipeline stage and tensor position,
which do the same work, and with itself before: one that was always a little slower explains nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median, median_low

from controlplane.domain.detection import reading
from controlplane.domain.detection.cusum import MAD_TO_SIGMA
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.slow_state import Flag, SlowAttempt, Times, Usual, Window
from controlplane.domain.detection.state import MAX_RANKS, AttemptState
from controlplane.domain.signals import Signal

WINDOW_STEPS = 20
MIN_COHORT = 4
SPREAD_FLOOR = 0.003
WAIT_SHARE = 0.5
"""A rank that holds the others up waits less than they do, by about as much as it computes longer."""
KNOWN_WINDOWS = 3
"""So many windows make a rank's own usual times known."""
MEMORY = 8
MAX_FLAGGED = 64
MAX_WINDOWS = 8
MAX_OPEN = 3
MAX_AHEAD = 4
MAX_REPORTS = 20


def cohort(mine: SlowAttempt, signal: Signal) -> None:
    """Note in which pipeline stage and tensor position a rank works."""
    groups, rank = reading.mapping(signal.data, "groups"), signal.rank
    name = f"{reading.integer(groups, 'pp') or 0}/{reading.integer(groups, 'tp') or 0}"
    if rank is not None and 0 <= rank < MAX_RANKS and name != "0/0":
        mine.cohorts[rank] = name


def take(mine: SlowAttempt, attempt: AttemptState, signal: Signal, policy: RunPolicy, *, well: bool) -> None:
    """Take in a rank's times over some steps; judge the window when all have reported it.

    Later reports for a window that is judged change nothing. While the run is `well`,
    a window also says what is usual for each rank.
    """
    times = _read(signal)
    if times is None or signal.rank is None or not 0 <= signal.rank < MAX_RANKS:
        return
    number = (times.last_step - 1) // WINDOW_STEPS
    if number <= mine.judged or _too_far(attempt, times):
        return
    reports = mine.reports.setdefault(number, {}).setdefault(signal.rank, [])
    if len(reports) < MAX_REPORTS and all(known.last_step != times.last_step for known in reports):
        reports.append(times)
    for ready in _ready(mine, attempt):
        _judge(mine, attempt, ready, signal.received, policy, well=well)


def _read(signal: Signal) -> Times | None:
    data = signal.data
    first, last = reading.integer(data, "first_step"), reading.integer(data, "last_step")
    if last is None or last < 1:
        return None
    times = Times(
        first_step=last if first is None else min(first, last),
        last_step=last,
        compute_ms=_positive(reading.number(data, "compute_ms")),
        wait_ms=_positive(reading.number(data, "wait_ms")),
        data_ms=_positive(reading.number(data, "data_ms")),
    )
    return times if times.compute_ms is not None or times.wait_ms is not None else None


def _too_far(attempt: AttemptState, times: Times) -> bool:
    """A window of steps that the run is far from would shut out all before it."""
    return attempt.last_step is not None and times.last_step > attempt.last_step + MAX_AHEAD * WINDOW_STEPS


def _positive(value: float | None) -> float | None:
    return value if value is not None and value >= 0 else None


def _ready(mine: SlowAttempt, attempt: AttemptState) -> list[int]:
    """Give the windows that all ranks have reported, and those that later ones have overtaken."""
    opened = sorted(mine.reports)
    newest = mine.reports[opened[-1]]
    expected = attempt.world_size or len(attempt.ranks)
    whole = len(newest) >= expected and all(_is_last(reports, opened[-1]) for reports in newest.values())
    overtaken = len(newest) * 2 >= expected or len(opened) > MAX_OPEN
    return opened if whole else opened[:-1] if overtaken else []


def _is_last(reports: list[Times], number: int) -> bool:
    """Say whether no further report of the same length fits into the window."""
    newest = max(reports, key=lambda times: times.last_step)
    return newest.last_step + (newest.last_step - newest.first_step) >= (number + 1) * WINDOW_STEPS


def _judge(mine: SlowAttempt, attempt: AttemptState, number: int, at: float, policy: RunPolicy, *, well: bool) -> None:
    reports = mine.reports.pop(number)
    mine.judged = number
    times = {rank: whole for rank, given in reports.items() if (whole := _whole(attempt, given)).compute_ms is not None}
    if not times:
        return
    last = max(given.last_step for given in times.values())
    window = _gains(mine, times)
    window.last_step, window.at = last, at
    window.flagged = _flagged(mine, times, policy)
    mine.windows = [*mine.windows, window][-MAX_WINDOWS:]
    if well:
        for rank, given in times.items():
            _remember(mine.usual.setdefault(rank, Usual()), given)


def _whole(attempt: AttemptState, given: list[Times]) -> Times:
    """Make one of a rank's reports in a window; without a compute time it is what of the step was not waiting."""
    whole = Times(
        first_step=min(times.first_step for times in given),
        last_step=max(times.last_step for times in given),
        compute_ms=_middle(times.compute_ms for times in given),
        wait_ms=_middle(times.wait_ms for times in given),
        data_ms=_middle(times.data_ms for times in given),
    )
    if whole.compute_ms is None and whole.wait_ms is not None:
        inside = range(whole.first_step, min(whole.last_step, whole.first_step + WINDOW_STEPS) + 1)
        steps = [attempt.samples[step][0] * 1000 for step in inside if step in attempt.samples]
        whole.compute_ms = _positive(median(steps) - whole.wait_ms - (whole.data_ms or 0.0)) if steps else None
    return whole


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _gains(mine: SlowAttempt, times: Mapping[int, Times]) -> Window:
    """Say by how much compute, wait and data times are over what was usual."""
    usual = {rank: known for rank in times if (known := mine.usual.get(rank)) and known.count >= KNOWN_WINDOWS}
    compute = [(times[rank].compute_ms or 0.0) - known.compute_ms for rank, known in usual.items()]
    wait = [gain for rank, known in usual.items() if (gain := _more(times[rank].wait_ms, known.wait_ms)) is not None]
    data = {
        rank: gain for rank, known in usual.items() if (gain := _more(times[rank].data_ms, known.data_ms)) is not None
    }
    window = Window(
        compute_ms=_middle(compute),
        wait_ms=min(wait) if wait and len(wait) == len(times) else None,
        data_ms=_middle(data.values()),
    )
    if data:
        window.data_rank = max(data, key=lambda rank: (data[rank], -rank))
        window.data_rank_ms = data[window.data_rank]
    return window


def _more(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


def _flagged(mine: SlowAttempt, times: Mapping[int, Times], policy: RunPolicy) -> dict[int, Flag]:
    groups: dict[str, list[int]] = defaultdict(list)
    for rank in times:
        groups[mine.cohorts.get(rank, "0/0")].append(rank)
    found: dict[int, Flag] = {}
    small: list[int] = []
    for ranks in groups.values():
        if len(ranks) < MIN_COHORT:
            small += ranks
        else:
            found |= _against_peers(mine, {rank: times[rank] for rank in ranks}, policy)
    if small:
        found |= _against_itself(mine, times, small, policy)
    worst = sorted(found, key=lambda rank: (-found[rank].gain_ms, rank))[:MAX_FLAGGED]
    return {rank: found[rank] for rank in sorted(worst)}


def _against_peers(mine: SlowAttempt, times: Mapping[int, Times], policy: RunPolicy) -> dict[int, Flag]:
    compute = {rank: given.compute_ms or 0.0 for rank, given in times.items()}
    middle = median(compute.values())
    if middle <= 0:
        return {}
    spread = max(MAD_TO_SIGMA * median(abs(value - middle) for value in compute.values()), SPREAD_FLOOR * middle)
    limit = max(policy.slow_rank_ratio * middle, middle + policy.slow_rank_z * spread)
    waits = _middle(given.wait_ms for given in times.values())
    return {
        rank: Flag(ratio=value / middle, over_ms=value - middle, gain_ms=_own_gain(mine, rank, value, value - middle))
        for rank, value in compute.items()
        if value >= limit and _waits_less(times[rank].wait_ms, waits, value - middle)
    }


def _waits_less(wait_ms: float | None, peers_ms: float | None, excess_ms: float) -> bool:
    return wait_ms is None or peers_ms is None or peers_ms - wait_ms >= WAIT_SHARE * excess_ms


def _own_gain(mine: SlowAttempt, rank: int, value: float, excess_ms: float) -> float:
    """What the rank adds to the step time: no more than it is over its peers, nor over itself before."""
    known = mine.usual.get(rank)
    if known is None or known.count < KNOWN_WINDOWS:
        return excess_ms
    return min(excess_ms, value - known.compute_ms)


def _against_itself(
    mine: SlowAttempt, times: Mapping[int, Times], ranks: Iterable[int], policy: RunPolicy
) -> dict[int, Flag]:
    """Compare a rank without enough peers with its own history, less what all ranks have in common."""
    ratios = {
        rank: (given.compute_ms or 0.0) / known.compute_ms
        for rank, given in times.items()
        if (known := mine.usual.get(rank)) and known.count >= KNOWN_WINDOWS and known.compute_ms > 0
    }
    if not ratios:
        return {}
    common = median_low(sorted(ratios.values()))
    found = {}
    for rank in ranks:
        if rank not in ratios or common <= 0:
            continue
        known, ratio = mine.usual[rank], ratios[rank] / common
        spread = max(known.spread_ms / known.compute_ms, SPREAD_FLOOR)
        if ratio >= policy.slow_rank_ratio and ratio - 1 >= policy.slow_rank_z * spread:
            over_ms = (ratio - 1) * known.compute_ms
            found[rank] = Flag(ratio=ratio, over_ms=over_ms, gain_ms=over_ms)
    return found


def _remember(known: Usual, given: Times) -> None:
    """Move a rank's usual times towards this window's, by an eighth once enough windows are known."""
    known.count = min(known.count + 1, MEMORY)
    part = 1 / known.count
    compute = given.compute_ms or 0.0
    distance = abs(compute - known.compute_ms) if known.count > 1 else 0.0
    known.spread_ms += (MAD_TO_SIGMA * distance - known.spread_ms) * part
    known.compute_ms += (compute - known.compute_ms) * part
    known.wait_ms = _moved(known.wait_ms, given.wait_ms, part)
    known.data_ms = _moved(known.data_ms, given.data_ms, part)


def _moved(known: float | None, given: float | None, part: float) -> float | None:
    if known is None or given is None:
        return given if known is None else known
    return known + (given - known) * part


def in_row(windows: Iterable[Window]) -> list[int]:
    """Give the ranks that stand out in every one of `windows`, the largest gain first."""
    row = list(windows)
    if not row:
        return []
    common = set.intersection(*(set(window.flagged) for window in row))
    return sorted(common, key=lambda rank: (-median(window.flagged[rank].gain_ms for window in row), rank))
