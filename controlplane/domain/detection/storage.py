"""Find a storage that does not answer, and one that runs out of room (D-18).

While the storage does not answer, every machine that uses it looks ill: so this
verdict comes with its own acquittal of the program, and the blame on GPUs and nodes
rests. It ends when probes answer again; without any witness it ends after a while,
because a run must not wait for a word that nobody can give.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.domain.chronicle import words
from controlplane.domain.detection import reading, storage_room, weights
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import ENDED, AttemptState, RunState
from controlplane.domain.detection.storage_state import Probe, StorageState
from controlplane.domain.detection.storage_witness import (
    KLASS,
    MIN_NODES,
    TOGETHER_WORDS,
    Witnesses,
    answers,
    hear,
    next_expiry,
)
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-18"
KINDS = frozenset({"node.health"})
MAX_PROBES = 16_384
MAX_DISKS = 64
MAX_NAMES = 8
NAMED = 4
"""As many nodes are named in a sentence; of more only the number."""


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Keep the newest probe of a node, and the free room of its paths."""
    disks = signal.data.get("disks")
    read = [disk for disk in disks[:MAX_DISKS] if isinstance(disk, Mapping)] if isinstance(disks, (list, tuple)) else []
    _probe(state.storage, signal, read, policy)
    for disk in read:
        storage_room.take(state.storage, signal, disk)


def _probe(storage: StorageState, signal: Signal, disks: list[Mapping[str, Any]], policy: RunPolicy) -> None:
    measured = [(ms, reading.text(disk, "path")) for disk in disks if (ms := reading.number(disk, "write_probe_ms"))]
    if not measured or (signal.node not in storage.probes and len(storage.probes) >= MAX_PROBES):
        return
    probe = storage.probes.setdefault(signal.node, Probe())
    ms, path = max(measured)
    if signal.at_ms > probe.at_ms:
        probe.at, probe.at_ms, probe.ms, probe.path = signal.received, signal.at_ms, ms, path
        probe.slow_row = probe.slow_row + 1 if ms > policy.probe_slow_ms else 0


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge whether the storage answers, and tell how long its room will last."""
    attempt = state.attempt
    if attempt is None:
        return []
    return [*_stall(state, attempt, policy, now), *storage_room.look(state, attempt, policy, now)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a storage that nobody speaks of any more is taken to answer."""
    storage = state.storage
    if not storage.open:
        return None
    quiet, aged = storage.bad_at + policy.storage_quiet_s, next_expiry(state, now)
    return min((moment for moment in (quiet, aged) if moment is not None and moment > now), default=None)


def _stall(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> Iterator[Finding]:
    storage = state.storage
    since = storage.since if storage.open else max(attempt.began_at, storage.closed_at)
    witnesses = hear(state, policy, now, since=since)
    if not storage.open and witnesses.sure:
        storage.open, storage.serial, storage.full, storage.names = True, storage.serial + 1, False, []
        storage.since, storage.found_at = witnesses.since or now, now
    if not storage.open:
        return
    if witnesses.sure:
        storage.bad_at = max(storage.bad_at, storage.since, witnesses.newest or 0.0)
        storage.names = sorted({*storage.names, *witnesses.names})[:MAX_NAMES]
    over, heard = _over(state, witnesses, policy, now)
    if not over or storage.attempt != attempt.number:
        yield _finding(state, attempt, witnesses, now)
    if over:
        storage.open, storage.closed_at = False, now
        yield _end(state, attempt, now, heard=heard)


def _over(state: RunState, witnesses: Witnesses, policy: RunPolicy, now: float) -> tuple[bool, bool]:
    """Say whether the stall is over, and whether somebody said so."""
    if witnesses.standing:
        return False, False
    bad_at = state.storage.bad_at
    waits = witnesses.slow or witnesses.waiting
    if not waits and answers(state, policy, now, bad_at=bad_at):
        return True, True
    return now - bad_at >= policy.storage_quiet_s, False


def _finding(state: RunState, attempt: AttemptState, witnesses: Witnesses, now: float) -> Finding:
    storage = state.storage
    storage.attempt = attempt.number
    storage.full = storage.full or witnesses.full
    if witnesses.sure:
        storage.sentence = _sentence(witnesses, full=storage.full)
    stopped = state.troubled or attempt.state == ENDED or state.hang.stage == Stage.SUSPECT
    grave = stopped or bool(witnesses.ranks) or len(witnesses.waiting) >= MIN_NODES
    return Finding(
        key=_key(state),
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.CONFIRMED,
        entity="storage",
        began=storage.since,
        at=storage.found_at,
        run=state.run,
        attempt=attempt.number,
        severity="critical" if grave else "warning",
        sentence=storage.sentence,
        evidence=tuple(_evidence(storage, witnesses, now)),
        facts={
            "fingerprint": "storage full" if storage.full else "storage stall",
            "cause": storage.sentence,
            "answers": False,
            "full": storage.full,
            "since": storage.since,
            "nodes_slow": list(witnesses.slow[:MAX_DISKS]),
            "names": list(storage.names),
        },
    )


def _key(state: RunState) -> str:
    return f"{state.run}/storage/{state.storage.serial}"


def _end(state: RunState, attempt: AttemptState, now: float, *, heard: bool) -> Finding:
    waited = f"after {words.duration(now - state.storage.since)}"
    told = f"the storage answers again {waited}" if heard else f"nobody complains of the storage any more {waited}"
    return Finding(
        key=_key(state),
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.CLEARED,
        entity="storage",
        began=state.storage.since,
        at=now,
        run=state.run,
        attempt=attempt.number,
        severity="info",
        sentence=told,
        facts={"answers": True, "since": state.storage.since},
    )


def _sentence(witnesses: Witnesses, *, full: bool) -> str:
    parts = []
    if witnesses.slow:
        parts.append(f"write probes of {_names(witnesses.slow)} take too long")
    if witnesses.waiting:
        parts.append(f"the kernel of {_names(witnesses.waiting)} waits for the file server")
    if witnesses.ranks:
        parts.append(f"{len(witnesses.ranks)} ranks failed to read or write {TOGETHER_WORDS}")
    return f"the storage {'is full' if full else 'does not answer'}: {' and '.join(parts)}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} nodes"


def _evidence(storage: StorageState, witnesses: Witnesses, now: float) -> Iterator[Evidence]:
    """Weigh on the storage; what all ranks meet alike is not the program's own."""
    spoken = (
        (witnesses.slow, f"write probes of {_names(witnesses.slow)} take too long", "slow probe"),
        (witnesses.waiting, f"the kernel of {_names(witnesses.waiting)} waits for the file server", "file server"),
        (witnesses.ranks, f"{len(witnesses.ranks)} ranks failed to read or write together", "i/o error"),
    )
    for who, text, kind in spoken:
        if who:
            yield Evidence(at=storage.since, entity="storage", weight=weights.STORAGE, text=text, kind=kind)
    if witnesses.ranks:
        text = "an error of the storage on many ranks at once is not the program's"
        yield Evidence(
            at=storage.since, entity="workload", weight=-weights.COMMON_EXCEPTION, text=text, kind="storage explains"
        )
    if not witnesses.sure:
        text = "the storage has not answered since"
        yield Evidence(at=min(now, storage.since), entity="storage", weight=weights.STORAGE, text=text, kind="stall")
