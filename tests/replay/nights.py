"""A night in the live log: two ranks train, one dies, and an incident was recorded."""

from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.events import log
from controlplane.fleet.models import Node, NodeState
from controlplane.incidents.models import ActRecord, Incident
from controlplane.runs.models import Attempt, Run

BEGAN = (datetime.now(UTC) - timedelta(hours=2)).replace(microsecond=0)
"""The first bad moment: recent enough for its events to be kept."""
NODES = ("n0", "n1")
STEP_S = 10


def a_crash():
    """Rank 1 dies at BEGAN, after 100 s of training; the incident as it was recorded then."""
    run = _world()
    incident = Incident.objects.create(
        run=run, attempt=1, klass="crash", severity="critical", state="resolved", title="rank 1 of demo died",
        began_at=BEGAN, opened_at=BEGAN + timedelta(seconds=60), confirmed_at=BEGAN + timedelta(seconds=61),
        mitigated_at=BEGAN + timedelta(seconds=90), resolved_at=BEGAN + timedelta(seconds=120),
    )  # fmt: skip
    ActRecord.objects.create(
        incident=incident, at=BEGAN + timedelta(seconds=62), do="restart", run="demo", args={"step": 0}, key="1"
    )
    return incident


def _world():
    begin = BEGAN - timedelta(seconds=100)
    for name in ("head", *NODES):
        Node.objects.create(
            name=name, state=NodeState.HEALTHY, head=name == "head", state_since=begin, enrolled_at=begin
        )
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=2, gpus_per_node=1, created_at=begin)
    Attempt.objects.create(run=run, number=1, nodes=list(NODES), world_size=2, started_at=begin, state="exited")
    return run


def log_it():
    """Put what the agents said around BEGAN into the event log; returns how many events that were."""
    said = sorted(_said(), key=lambda one: one[0])
    with transaction.atomic(), connection.cursor() as cursor:
        for seq, (after, sender, kind, more) in enumerate(said, 1):
            at = BEGAN + timedelta(seconds=after)
            event = make_event(kind, at_ms=round(at.timestamp() * 1000), seq=seq, **more)
            batch = Batch(agent=AgentIdentity(node=sender, incarnation="one"), sent_at_ms=event.at_ms, events=[event])
            log.append(cursor, [decode_batch(encode_batch(batch))], at)
    return len(said)


def _said():
    about = {"run": "demo", "attempt": 1}
    yield -100, "head", "attempt.started", {**about, "nodes": list(NODES), "world_size": 2, "job_id": "1"}
    for rank, name in enumerate(NODES):
        yield -99, name, "rank.started", {**about, "rank": rank, "node": name, "local_rank": 0, "pid": 1}
        for beat in range(-98, 60, 10):
            yield beat, name, "node.heartbeat", {}
    for step in range(1, 10):
        yield STEP_S * step - 100, "n0", "rank.step", {**about, "rank": 0, "step": step, "duration_ms": 10_000}
    error = {"type": "RuntimeError", "message": "boom", "traceback_tail": ""}
    yield 0, "n1", "rank.exited", {**about, "rank": 1, "exit_code": 1, "signal": None, "error": error}
    yield 1, "head", "attempt.exited", {**about, "reason": "failed", "exit_code": 1}
