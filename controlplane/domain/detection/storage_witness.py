"""Who speaks against the storage, and who says that it answers again (D-18).

Three sorts of witness: the agents' write probes, the kernels' complaints about the
file server, and the errors of ranks that read or wrote. One node alone tells of its
own trouble; what several nodes meet together is the storage.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.domain.detection import weights
from controlplane.domain.detection.hardware_rules import struck_at
from controlplane.domain.detection.hardware_state import Fault, HardwareState
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.detection.storage_state import Probe
from controlplane.domain.findings import Evidence
from controlplane.domain.signatures.table import by_id

KLASS = "storage_stall"
FRESH_S = 300.0
"""A probe older than this says nothing about now."""
TOGETHER_S = 10.0
"""Errors of ranks within so long have one cause."""
MIN_NODES = 2
MIN_RANKS = 3
RANK_SHARE = 0.25
COMPLAINT_S = 3600.0
"""A kernel says when its file server is back; a complaint without that word ends only after so long."""
SERVER = re.compile(r"\bnfs: server ([^\s,]{1,64})")
SLOW_ROW = 2
"""Beside a run that trains on, one slow probe is no sign."""
TOGETHER_WORDS = f"within {TOGETHER_S:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """Nodes whose probe is slow, nodes whose kernel waits, ranks that failed together, and since when.

    `names` are the paths of the slow probes and the servers that kernels wait for.
    """

    slow: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    full: bool = False
    since: float | None = None
    newest: float | None = None
    names: tuple[str, ...] = ()

    @property
    def standing(self) -> bool:
        """Say whether enough nodes wait at this moment."""
        return len(self.slow) >= MIN_NODES or len(self.waiting) >= MIN_NODES

    @property
    def sure(self) -> bool:
        """Say whether they are enough for a verdict."""
        return self.standing or bool(self.ranks)


def hear(state: RunState, policy: RunPolicy, now: float, *, since: float) -> Witnesses:
    """Gather who speaks against the storage since `since`, in seconds."""
    row = 1 if state.troubled else SLOW_ROW
    slow = [
        (name, probe)
        for name, probe in state.storage.probes.items()
        if is_slow(probe, policy, now) and probe.slow_row >= row
    ]
    waiting = [fault for fault in _complaints(state.hardware) if _still_waits(state, fault, policy, now)]
    ranks = _together([fault for fault in _errors(state.hardware) if struck_at(fault) >= since], state)
    times = [*(probe.at for _, probe in slow), *(struck_at(fault) for fault in [*waiting, *ranks])]
    heard = [*(probe.at for _, probe in slow), *(fault.last_at for fault in [*waiting, *ranks])]
    return Witnesses(
        slow=tuple(sorted(name for name, _ in slow)),
        waiting=tuple(sorted({fault.node for fault in waiting})),
        ranks=tuple(sorted(fault.rank for fault in ranks if fault.rank is not None)),
        full=any("full" in by_id()[fault.signature].repeat for fault in ranks),
        since=min(times, default=None),
        newest=max(heard, default=None),
        names=tuple(sorted({probe.path for _, probe in slow if probe.path} | _servers(waiting))),
    )


def _servers(waiting: Iterable[Fault]) -> set[str]:
    return {found[1] for fault in waiting if (found := SERVER.search(fault.said))}


def is_slow(probe: Probe, policy: RunPolicy, now: float) -> bool:
    """Say whether a probe that still counts at `now` took too long."""
    return probe.ms > policy.probe_slow_ms and now - probe.at <= FRESH_S


def _complaints(record: HardwareState) -> Iterable[Fault]:
    return (fault for fault in record.faults.values() if "stall" in by_id()[fault.signature].repeat and not fault.old)


def _errors(record: HardwareState) -> Iterable[Fault]:
    return (fault for fault in record.faults.values() if "ranks" in by_id()[fault.signature].repeat)


def _still_waits(state: RunState, fault: Fault, policy: RunPolicy, now: float) -> bool:
    """A kernel's complaint ends by its own word, by a probe of its node, or by age."""
    if now - fault.last_at > COMPLAINT_S or _answered(state.hardware, fault):
        return False
    probe = state.storage.probes.get(fault.node)
    return probe is None or probe.at <= fault.last_at or probe.ms > policy.probe_slow_ms


def _answered(record: HardwareState, fault: Fault) -> bool:
    return any(
        "answer" in by_id()[other.signature].repeat and other.node == fault.node and other.last_ms >= fault.last_ms
        for other in record.faults.values()
    )


def _together(errors: list[Fault], state: RunState) -> list[Fault]:
    """Give the errors that came within `TOGETHER_S` from enough ranks and nodes, none when they are too few."""
    world = len(state.attempt.ranks) if state.attempt is not None else 0
    needed = max(MIN_RANKS, round(RANK_SHARE * world))
    for first in sorted(errors, key=struck_at):
        group = [fault for fault in errors if 0 <= struck_at(fault) - struck_at(first) <= TOGETHER_S]
        if len({fault.rank for fault in group}) >= needed and len({fault.node for fault in group}) >= MIN_NODES:
            return group
    return []


def answers(state: RunState, policy: RunPolicy, now: float, *, bad_at: float) -> bool | None:
    """Say whether the storage answers after `bad_at`: by probes, kernels, or steps; None without a witness."""
    probes = [probe for probe in state.storage.probes.values() if now - probe.at <= FRESH_S]
    if any(probe.ms > policy.probe_slow_ms for probe in probes):
        return False
    later = [probe for probe in probes if probe.at > bad_at]
    if later:
        return len(later) >= min(MIN_NODES, len(probes))
    complaints = [fault for fault in _complaints(state.hardware) if now - fault.last_at <= COMPLAINT_S]
    if complaints and all(_answered(state.hardware, fault) for fault in complaints):
        return True
    attempt = state.attempt
    if attempt is not None and attempt.last_step is not None and attempt.progress_at > bad_at:
        return True
    return None


def next_expiry(state: RunState, now: float) -> float | None:
    """Give the earliest moment after `now` at which a witness grows too old to count."""
    probes = [probe.at + FRESH_S for probe in state.storage.probes.values() if probe.slow_row]
    complaints = [fault.last_at + COMPLAINT_S for fault in _complaints(state.hardware)]
    return min((moment for moment in [*probes, *complaints] if moment > now), default=None)


def lone(state: RunState, policy: RunPolicy, now: float) -> list[Evidence]:
    """Testify against the one node whose probe is slow while those of at least two others are not."""
    fresh = {name: probe for name, probe in state.storage.probes.items() if now - probe.at <= FRESH_S}
    slow = [name for name, probe in fresh.items() if probe.ms > policy.probe_slow_ms]
    if len(slow) != 1 or len(fresh) - 1 < MIN_NODES:
        return []
    (name,) = slow
    text = f"the write probe of {name} takes {fresh[name].ms / 1000:.0f} s while those of other nodes answer"
    at = fresh[name].at
    return [Evidence(at=at, entity=f"node:{name}", weight=weights.LONE_SLOW_PROBE, text=text, kind="slow probe")]
