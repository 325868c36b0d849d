"""What the fleet's reducer says, in findings."""

from collections.abc import Sequence

from controlplane.domain.detection import weights
from controlplane.domain.detection.fleet_places import UNSEEN, all_down, domain_of, listed
from controlplane.domain.detection.fleet_state import FleetNode, FleetState, GroupLoss, Witness
from controlplane.domain.findings import Evidence, Finding, Stage


def group(state: FleetState, names: Sequence[str], run: str | None, witness: Witness) -> Finding:
    """Say that nodes fell silent together; with a run it is that run's loss of `names`."""
    loss = state.group
    domain = domain_of(state, names)
    unseen = loss.klass == UNSEEN
    entity = f"domain:{domain.partition(':')[2]}" if domain and not unseen else "platform"
    return Finding(
        key=_key(loss, run),
        detector="D-08",
        klass=loss.klass,
        stage=Stage(loss.stage),
        entity=entity,
        began=loss.began,
        at=loss.found_at,
        run=run,
        attempt=loss.homes.get(run) if run else None,
        severity="warning" if unseen or (run is None and not loss.hold) else "critical",
        sentence=_group_sentence(state, loss, names, run, witness),
        evidence=_group_evidence(state, loss, names, entity) if run else (),
        facts={
            "nodes": list(names),
            "hold": loss.hold,
            "watched": len(state.nodes),
            "domain": domain,
            "runs": sorted({witness.homes[name][0] for name in names if name in witness.homes}),
            "spares": witness.spares,
            "needed": len(names) if run else 0,
            "fingerprint": f"{loss.klass} of {domain or 'several places'}",
            "cause": f"{domain.replace(':', ' ')} was lost" if domain and run else "",
        },
    )


def _key(loss: GroupLoss, run: str | None) -> str:
    return f"fleet/group/{loss.serial}" + (f"/{run}" if run else "")


def _group_sentence(state: FleetState, loss: GroupLoss, names: Sequence[str], run: str | None, witness: Witness) -> str:
    domain = domain_of(state, names)
    where = f" in {domain.replace(':', ' ')}" if domain else ""
    base = f"{len(names)} nodes{where} fell silent together"
    if loss.klass == UNSEEN:
        return f"{base} while their runs advance, so only their telemetry is lost: {listed(names)}"
    if loss.hold:
        return f"{base}; automation is on hold, because {loss.why}"
    if run is None:
        return f"{base}: {listed(names)}"
    confirmed = ", the scheduler calls each of them down" if all_down(state, names) else ""
    return f"{base}, run {run} stands still{confirmed}: {listed(names)}{_spares(names, witness)}"


def _spares(names: Sequence[str], witness: Witness) -> str:
    if witness.spares is None:
        return ""
    short = len(names) - witness.spares
    return f"; {len(names)} spares are needed, {witness.spares} are free" + (f", {short} short" if short > 0 else "")


def _group_evidence(state: FleetState, loss: GroupLoss, names: Sequence[str], entity: str) -> tuple[Evidence, ...]:
    """Weigh on the place they share, never on single nodes: a group event is no strike (L-07)."""
    if entity == "platform":
        return ()
    place = entity.partition(":")[2]
    lines = [
        (weights.NODE_SILENT, "group silent", f"{len(names)} nodes of {place} fell silent within a minute", loss.began)
    ]
    if all_down(state, names):
        text = f"the scheduler calls all {len(names)} of them down"
        lines.append((weights.NODE_DOWN, "scheduler down", text, loss.found_at))
    return tuple(Evidence(at=at, entity=entity, weight=w, text=text, kind=kind) for w, kind, text, at in lines)


def cleared(state: FleetState, run: str | None, now: float) -> Finding:
    """Take a group finding back."""
    loss = state.group
    told = state.told.get(_key(loss, run))
    return Finding(
        key=_key(loss, run),
        detector="D-08",
        klass=told.klass if told else loss.klass,
        stage=Stage.CLEARED,
        entity=told.entity if told else "platform",
        began=loss.began,
        at=now,
        run=run,
        attempt=loss.homes.get(run) if run else None,
        severity="info",
        sentence=_end_sentence(loss),
        facts={"nodes": list(loss.nodes), "hold": False},
    )


def _end_sentence(loss: GroupLoss) -> str:
    if loss.open:
        return "the loss is confirmed and is the run's to answer; the fleet no longer holds"
    return "the nodes that fell silent together speak again or are accounted for; automation goes on"


def single(name: str, node: FleetNode, stage: Stage, at: float) -> Finding:
    """Say that one idle node is silent or lost, or speaks again."""
    lost = node.told_klass == "node_lost"
    why = (
        f"is lost: it is silent and the scheduler calls it {node.scheduler}" if lost else "has been silent for minutes"
    )
    quiet = f"node {name}, which runs nothing, {why}"
    return Finding(
        key=f"fleet/silent/{name}/{node.told_serial}",
        detector="D-07",
        klass=node.told_klass,
        stage=stage,
        entity=f"node:{name}",
        began=node.last_at or at,
        at=at,
        severity="info" if stage is Stage.CLEARED else "warning",
        sentence=f"node {name} speaks again" if stage is Stage.CLEARED else quiet,
        facts={"nodes": [name], "fingerprint": node.told_klass},
    )
