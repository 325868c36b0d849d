"""Everything that a node page shows, and the list of nodes kept out of training."""

from datetime import datetime
from typing import Any

from controlplane.domain.detection import reading
from controlplane.domain.fleet.reconcile import Verdict
from controlplane.domain.fleet.scheduling import UNKNOWN
from controlplane.events import queries as events
from controlplane.fleet import hot, scheduler
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Node, SchedulerNode
from controlplane.incidents.models import Incident
from controlplane.quarantine import conflicts
from controlplane.quarantine import queries as ledger
from controlplane.quarantine.models import LedgerEntry
from controlplane.quarantine.reconcile import standing
from controlplane.runs.models import Attempt
from controlplane.web.present import badges, buttons, words
from controlplane.web.present.buttons import May
from controlplane.web.present.fleet import frozen_words, is_old, node_sentence
from controlplane.web.read import unrecognised

LEDGER_ROWS = 30
ATTEMPT_ROWS = 10
RELEASABLE = "quarantined"


def load(name: str) -> Node:
    """Return the node as it was last heard, or raise `NotFound`."""
    return hot.heard([fleet.node(name)])[0]


def state(node: Node, may: May, now: datetime) -> dict[str, Any]:
    """Read a node's page."""
    sentence, tone = node_sentence(node, now)
    frozen = conflicts.frozen(node.name, now)
    served = Attempt.objects.filter(nodes__contains=[node.name]).select_related("run").order_by("-started_at")
    return {
        "node": node,
        "sentence": sentence,
        "tone": tone,
        "badge": badges.LAUNCHER if node.head else badges.of(badges.NODE, node.state),
        "old": is_old(node, now),
        "gpus": _gpus(node),
        "facts": [*_hardware(node), *_scheduler(node, now)],
        "ledger": [(row, badges.of(badges.NODE, row.to_state)) for row in ledger.entries(node.name)[:LEDGER_ROWS]],
        "strikes": ledger.strikes(node.name, now),
        "attempts": served[:ATTEMPT_ROWS],
        "incidents": Incident.objects.filter(blamed__contains=[{"entity": f"node:{node.name}"}])[:ATTEMPT_ROWS],
        "release": buttons.release(node, may) if node.state == RELEASABLE else None,
        "frozen": {"words": frozen_words(node, frozen.reason), "until": frozen.at + conflicts.FROZEN}
        if frozen
        else None,
        **unrecognised.shown(None, node.name),
        "now": now,
    }


def kept_out(may: May, now: datetime) -> list[dict[str, Any]]:
    """Read the quarantine list: node, since, why, by whom, and the way back."""
    return [_kept(node, may, now) for node in ledger.kept_out()]


def _kept(node: Node, may: May, now: datetime) -> dict[str, Any]:
    last = ledger.moves(node.name).filter(to_state=node.state).first()
    return {
        "node": node,
        "badge": badges.of(badges.NODE, node.state),
        "entry": last,
        "evidence": [str(line.get("text", "")) for line in last.evidence[:3]] if last else [],
        "strikes": ledger.strikes(node.name, now),
        "release": buttons.release(node, may) if node.state == RELEASABLE else None,
    }


def _gpus(node: Node) -> list[dict[str, Any]]:
    gpus = node.hardware.get("gpus") or []
    return [gpu for gpu in gpus if isinstance(gpu, dict)][:32] if isinstance(gpus, list) else []


def _hardware(node: Node) -> list[tuple[str, str]]:
    labels = ", ".join(f"{key} {value}" for key, value in sorted(node.labels.items()))
    newest = events.latest("node.health", node=node.name)
    host = reading.mapping(newest.data, "host") if newest else {}
    busy = reading.number(host, "cpu_pct")
    return [
        ("Labels", labels or "none"),
        ("Agent", node.agent_version or "–"),
        ("Incarnation", node.incarnation[:12] or "–"),
        ("CPU", f"{busy:.0f} %" if busy is not None else "–"),
        ("Free memory", words.size(reading.number(host, "memory_available_bytes"))),
        ("Load", words.number(reading.number(host, "load1"))),
    ]


def _scheduler(node: Node, now: datetime) -> list[tuple[str, str]]:
    """Say what each scheduler calls the node, and why Middlewatch leaves that so where it differs."""
    return [(f"Scheduler at {row.launcher}", _called(row, verdict, now)) for row, verdict in standing(node, now)]


def _called(row: SchedulerNode, verdict: Verdict, now: datetime) -> str:
    told = scheduler.word(row)
    if told.at(now.timestamp()) == UNKNOWN:
        return f"unknown, not told for {words.span(now - row.heard_at)}"
    return told.by_whom if verdict.ask or not verdict.why else f"{told.by_whom}; {verdict.why}"


def last_release() -> LedgerEntry | None:
    """Return the last move out of quarantine."""
    return LedgerEntry.objects.filter(from_state=RELEASABLE).exclude(to_state=RELEASABLE).select_related("node").first()
