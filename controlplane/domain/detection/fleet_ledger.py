"""Hold the ledger against what the scheduler does and what machines claim (L-04, methods 11.6).

A node that is kept out must not train: an attempt that began with it in its
allocation is told at once. Two machines under one name are told as well, because
nothing that either says may be acted on as the other's.
"""

from controlplane.domain.detection.fleet_state import FleetState, Stray, Witness
from controlplane.domain.detection.state import Told
from controlplane.domain.findings import Evidence, Finding, Stage

STRAY_WEIGHT = 4.0


def strays(state: FleetState, now: float, witness: Witness) -> list[Finding]:
    """Tell each kept-out node in the allocation of a running attempt, and when it has left it."""
    if witness.strays is None:
        return []
    present = {_stray_key(stray): stray for stray in witness.strays}
    gone = [key for key in state.strays if key not in present]
    found = [_end(key, state.told.get(key), now, "it stands in no running allocation any more") for key in gone]
    for key in gone:
        del state.strays[key]
    for key, stray in present.items():
        found.append(_stray(key, stray, state.strays.setdefault(key, now)))
    return [item for item in found if item is not None]


def _stray_key(stray: Stray) -> str:
    return f"fleet/stray/{stray.run}/{stray.attempt}/{stray.node}"


def _stray(key: str, stray: Stray, at: float) -> Finding:
    kept = stray.kept_out
    why = f" ({kept.why})" if kept.why else ""
    text = f"the ledger says that node {stray.node} is {kept.state}{why}"
    return Finding(
        key=key,
        detector="L-04",
        klass="scheduler",
        stage=Stage.CONFIRMED,
        entity=f"node:{stray.node}",
        began=at,
        at=at,
        run=stray.run,
        attempt=stray.attempt,
        severity="critical",
        sentence=(
            f"node {stray.node} is {kept.state} and yet the scheduler put it into the allocation of "
            f"attempt {stray.attempt} of run {stray.run}"
        ),
        evidence=(Evidence(at=at, entity=f"node:{stray.node}", weight=STRAY_WEIGHT, text=text, kind="ledger"),),
        facts={"nodes": [stray.node], "state": kept.state, "fingerprint": "kept-out node in an allocation"},
    )


def disputes(state: FleetState, now: float, witness: Witness) -> list[Finding]:
    """Tell each name that two machines claim, and when only one does any more."""
    if witness.disputed is None:
        return []
    found = []
    for name in [name for name in state.disputed if name not in witness.disputed]:
        key = _dispute_key(name, state.disputed.pop(name))
        found.append(_end(key, state.told.get(key), now, f"only one machine claims the name {name} now"))
    for name in sorted(witness.disputed):
        at = state.disputed.setdefault(name, now)
        found.append(_dispute(name, at))
    return [item for item in found if item is not None]


def _dispute_key(name: str, at: float) -> str:
    return f"fleet/identity/{name}/{at:.0f}"


def _dispute(name: str, at: float) -> Finding:
    return Finding(
        key=_dispute_key(name, at),
        detector="L-01",
        klass="identity_conflict",
        stage=Stage.CONFIRMED,
        entity=f"node:{name}",
        began=at,
        at=at,
        severity="critical",
        sentence=f"two living machines claim the name {name}; nothing that either reports is acted on as the other's",
        facts={"nodes": [name], "fingerprint": "two machines of one name"},
    )


def _end(key: str, told: Told | None, now: float, why: str) -> Finding | None:
    if told is None:
        return None
    run, _, _ = key.removeprefix("fleet/stray/").partition("/") if told.detector == "L-04" else ("", "", "")
    return Finding(
        key=key,
        detector=told.detector,
        klass=told.klass,
        stage=Stage.CLEARED,
        entity=told.entity,
        began=told.began,
        at=now,
        run=run or None,
        attempt=told.attempt,
        severity="info",
        sentence=why,
    )
