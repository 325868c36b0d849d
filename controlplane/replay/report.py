"""Say what happened in a replay, in the form that docs/replay.md describes; the same trace gives the same bytes."""

from collections.abc import Sequence
from typing import Any

from controlplane.analytics.account import account
from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Invalid
from controlplane.domain.findings import Stage
from controlplane.fleet.models import Node
from controlplane.incidents.models import ActRecord, Incident
from controlplane.quarantine import queries as ledger
from controlplane.replay.clock import BASE, at, t_of, t_of_seconds
from controlplane.runs.models import Run

MS_PER_S = 1000.0


def report(name: str, runs: Sequence[Run], end_t: float) -> dict[str, Any]:
    """Gather everything that a replay of `name` up to `end_t` left in the database."""
    incidents = list(Incident.objects.select_related("run").order_by("opened_at", "pk"))
    places = {incident.pk: place for place, incident in enumerate(incidents)}
    acts = list(ActRecord.objects.order_by("at", "pk"))
    return {
        "trace": name,
        "incidents": [_incident(one, [act for act in acts if act.incident_id == one.pk]) for one in incidents],
        "actions": [{"t": t_of(act.at), **_act(act), "incident": places.get(act.incident_id or 0)} for act in acts],
        "chronicle": _chronicle(),
        "accounting": _accounting(runs, end_t),
        "fleet": _fleet(end_t),
    }


def _incident(incident: Incident, acts: Sequence[ActRecord]) -> dict[str, Any]:
    return {
        "class": incident.klass,
        "run": incident.run.name if incident.run else None,
        "opened_t": t_of(incident.opened_at),
        "confirmed_t": t_of(incident.confirmed_at),
        "resolved_t": t_of(incident.resolved_at),
        "severity": incident.severity,
        "title": incident.title,
        "blamed": [
            {"entity": one.get("entity"), "score": _rounded(one.get("score")), "margin": _rounded(one.get("margin"))}
            for one in incident.blamed
        ],
        "cleared": list(incident.cleared),
        "evidence": _evidence(incident),
        "decision": _decision(incident, acts),
    }


def _evidence(incident: Incident) -> list[dict[str, Any]]:
    """Give each line once, in order of time."""
    lines = []
    for finding in incident.findings.exclude(stage=Stage.CLEARED).order_by("found_at", "pk"):
        for line in finding.evidence:
            told = {"t": t_of_seconds(line["at"]), "weight": _rounded(line["weight"]), "text": line["text"]}
            if told not in lines:
                lines.append(told)
    return sorted(lines, key=lambda line: (line["t"], line["text"]))


def _decision(incident: Incident, acts: Sequence[ActRecord]) -> dict[str, Any]:
    steps = [act.args.get("step") for act in acts if act.args.get("step") is not None]
    return {
        "runbook": incident.decision.get("runbook"),
        "actions": [_act(act) for act in acts],
        "held_by": incident.decision.get("held_by"),
        "resume_step": steps[-1] if steps else incident.decision.get("resume_step"),
    }


def _act(act: ActRecord) -> dict[str, Any]:
    told: dict[str, Any] = {"do": act.do}
    if act.run is not None:
        told["run"] = act.run
    if act.node is not None:
        told["node"] = act.node
    told |= {name: act.args[name] for name in sorted(act.args)}
    if act.proposed:
        told["proposed"] = True
    return told


def _chronicle() -> list[str]:
    """Give every sentence in the order in which it was written; one told in two streams at once is given once."""
    told: list[str] = []
    last: set[tuple[Any, str]] = set()
    moment = None
    for happened, recorded, sentence in Entry.objects.order_by("pk").values_list(
        "happened_at", "recorded_at", "sentence"
    ):
        if recorded != moment:
            moment, last = recorded, set()
        if (happened, sentence) not in last:
            last.add((happened, sentence))
            told.append(sentence)
    return told


def _accounting(runs: Sequence[Run], end_t: float) -> dict[str, Any]:
    """Add the accounts of all runs; the shares are those of their time together."""
    labels: dict[str, int] = {}
    elapsed = productive = 0.0
    lost = 0.0
    for run in runs:
        try:
            found = account(run, begin=BASE, end=at(end_t)).goodput
        except Invalid:
            continue
        for label, ms in found.by_label_ms.items():
            labels[label.value] = labels.get(label.value, 0) + ms
        elapsed += found.elapsed_ms
        productive += found.productive * found.elapsed_ms
        lost += found.lost_gpu_hours(run.gpus_per_node * run.nodes_wanted)
    return {
        "elapsed_s": elapsed / MS_PER_S,
        "by_label_s": {label: ms / MS_PER_S for label, ms in labels.items() if ms},
        "goodput": round(productive / elapsed, 6) if elapsed else 0.0,
        "lost_gpu_hours": round(lost, 3),
    }


def _fleet(end_t: float) -> dict[str, Any]:
    return {
        node.name: {"state": node.state, "strikes": ledger.strikes(node.name, at(end_t))}
        for node in Node.objects.order_by("name")
    }


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value
