"""A small world for pages: two runs, eight nodes, an open incident with its runbook under way, and a past one."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.access.models import Role, User
from controlplane.checkpoints.models import Checkpoint
from controlplane.chronicle.actions import tell
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.signals import Signal
from controlplane.events import log
from controlplane.fleet.models import Node
from controlplane.incidents.models import Finding, Incident
from controlplane.notify import arranging
from controlplane.notify.models import Call, Mention, Message
from controlplane.quarantine.models import LedgerEntry
from controlplane.replay.models import Rerun
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs.models import Attempt, Machine, Run

PASSWORD = "the middle watch"
STEPS = ("collect", "confirm", "stop", "choose_checkpoint", "choose_nodes", "launch", "await_progress", "close")


@dataclass
class World:
    run: Run
    incident: Incident
    execution: Execution
    now: datetime


def person(name: str = "ana", role: str = Role.OPERATOR) -> User:
    return User.objects.create_user(name, password=PASSWORD, role=role)


def build(now: datetime | None = None) -> World:
    now = now or datetime.now(UTC)
    ago = lambda seconds: now - timedelta(seconds=seconds)  # noqa: E731
    nodes = _nodes(now, ago)
    run = Run.objects.create(
        name="llama-70b-v3",
        state="recovering",
        launcher="head",
        nodes_wanted=4,
        gpus_per_node=8,
        created_at=ago(90000),
        high_water_step=81_470,
        high_water_at=ago(130),
        policy={"hang_floor_s": 30},
    )
    Run.objects.create(
        name="vision-7b",
        state="running",
        launcher="head",
        nodes_wanted=2,
        gpus_per_node=8,
        created_at=ago(40000),
        high_water_step=4_203,
        high_water_at=ago(1),
    )
    _attempts(run, ago)
    _checkpoints(run, ago)
    past = _past(run, ago)
    incident, execution = _open(run, ago)
    _ledger(nodes["n07"], past, ago)
    _machine(run, now)
    _told(incident, ago)
    report_steps(run.name, ago(130))
    report_steps("vision-7b", now, every_s=1.2, tokens=500_000)
    return World(run, incident, execution, now)


def _told(incident, ago):
    """One person was called, and took the message."""
    given = {"url": "https://hooks.example.org/ana"}
    ana = arranging.add_transport("ana’s telephone", "webhook", given, "ana", ago(90000))
    step = arranging.NewStep(after_s=0, transports=[ana.pk])
    arranging.add_rule(arranging.NewRule(name="nights", severity="critical", steps=[step]), "ana", ago(90000))
    subject = f"incident:{incident.pk}"
    call = Call.objects.create(
        subject=subject, key=f"{subject}:page:2", run=incident.run.name, klass=incident.klass, severity="critical",
        loud=True, escalates=True, called_at=ago(100), fresh=False, rules=1,
    )  # fmt: skip
    message = Message.objects.create(
        transport=ana, sent_by=ana.name, key="0f3c9a77", thread=f"{ana.pk}:{subject}", state="delivered", tries=1,
        created_at=ago(100), next_at=ago(97), tried_at=ago(97), ended_at=ago(96),
        proof={"status": 202, "said": "queued"}, text="Run llama-70b-v3 is stopped: Rank 412 hung on n04.",
    )  # fmt: skip
    Mention.objects.create(message=message, call=call, rule="nights", step=0)


def _nodes(now, ago):
    states = ["healthy", "healthy", "healthy", "suspect", "spare", "spare", "quarantined", "unknown"]
    made = {}
    for index, state in enumerate(states, start=1):
        name = f"n{index:02d}"
        made[name] = Node.objects.create(
            name=name,
            state=state,
            state_since=ago(4000),
            enrolled_at=ago(90000),
            agent_version="0.1.0",
            incarnation="0f3c9a77",
            labels={"rack": f"r{1 + index // 5}"},
            last_seen_at=None if state == "unknown" else ago(400 if name == "n04" else 2),
            state_reason="ECC errors on GPU 3" if state == "quarantined" else "",
            hardware={"gpus": [{"index": 0, "uuid": "GPU-77aa", "model": "H100", "memory_bytes": 85_000_000_000}]},
        )
    Node.objects.create(
        name="head",
        state="healthy",
        head=True,
        state_since=now,
        enrolled_at=now,
        last_seen_at=now,
        labels={"rack": "r1"},
    )
    return made


def _attempts(run, ago):
    nodes = ["n01", "n02", "n03", "n04"]
    Attempt.objects.create(
        run=run,
        number=1,
        state="exited",
        nodes=nodes,
        world_size=32,
        started_at=ago(7200),
        first_step_at=ago(7100),
        last_step=79_000,
        last_step_at=ago(4000),
        exited_at=ago(3980),
        reason="failed",
        exit_code=1,
    )
    Attempt.objects.create(
        run=run,
        number=2,
        state="running",
        nodes=nodes,
        world_size=32,
        started_at=ago(3900),
        first_step_at=ago(3800),
        resume_step=78_900,
        last_step=81_470,
        last_step_at=ago(130),
    )


def _checkpoints(run, ago):
    for step, state, seconds, why in (
        (81_450, "torn", 160, "3 of 32 files are missing"),
        (81_400, "complete", 400, ""),
        (81_200, "verified", 1400, ""),
    ):
        Checkpoint.objects.create(
            run=run,
            step=step,
            path=f"step-{step}",
            state=state,
            why=why,
            attempt=2,
            bytes=140_000_000_000,
            files=32,
            began_at=ago(seconds + 20),
            completed_at=ago(seconds) if state != "torn" else None,
        )


def _past(run, ago):
    return Incident.objects.create(
        run=run,
        attempt=1,
        klass="hang",
        state="resolved",
        title="Rank 7 of llama-70b-v3 stopped in all-reduce",
        began_at=ago(4000),
        opened_at=ago(3990),
        confirmed_at=ago(3985),
        mitigated_at=ago(3800),
        resolved_at=ago(3700),
        losses={"steps": 100, "seconds": 200.0, "gpu_hours": 1.78, "confidence": "measured"},
    )


def report_steps(name, now, *, first=1, count=120, every_s=5.1, tokens=4_194_304):
    """Put steps into the event log, the last one just before `now`, as rank 0 would report them."""
    events = [
        make_event(
            "rank.step",
            at_ms=int((now.timestamp() - (count - index) * every_s) * 1000),
            seq=first + index,
            run=name,
            attempt=2,
            rank=0,
            step=first + index,
            duration_ms=1000 * every_s + 180 * math.sin(index / 3),
            tokens=tokens,
            loss=1.8,
        )
        for index in range(count)
    ]
    agent = AgentIdentity(node="n01", incarnation=f"life-{name}-{first}")
    batch = decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=events)))
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [batch], now)


def _machine(run, now):
    """The stored reducer of a run with four ranks, one of them slow."""
    reducer = RunMachine(run.name, RunPolicy())
    at = now.timestamp()

    def say(kind, sender, rank=None, **data):
        reducer.observe(
            Signal(
                kind=kind,
                received=at,
                at_ms=int(at * 1000),
                node=sender,
                incarnation="i",
                run=run.name,
                attempt=2,
                rank=rank,
                data=data,
            ),
            at,
        )

    say("attempt.started", "head", nodes=["n01", "n02", "n03", "n04"], world_size=4, scheduler="local", job_id="1")
    for rank in range(4):
        say("rank.started", f"n0{rank + 1}", rank, node=f"n0{rank + 1}", local_rank=0, pid=100 + rank)
        say(
            "rank.window",
            f"n0{rank + 1}",
            rank,
            first_step=81_461,
            last_step=81_470,
            compute_ms=4100 + 300 * (rank == 3),
            wait_ms=900,
            data_ms=20,
        )
    reducer.sweep(at)
    Machine.objects.update_or_create(
        run=run, defaults={"name": f"run:{run.pk}", "snapshot": reducer.snapshot(), "swept_at": now}
    )


def _open(run, ago):
    incident = Incident.objects.create(
        run=run,
        attempt=2,
        klass="hang",
        title="Rank 412 hung on n04: no step for 2 min, expected every 5.1 s",
        began_at=ago(128),
        opened_at=ago(70),
        confirmed_at=ago(65),
        blamed=[
            {"entity": "node:n04", "score": 5.1, "margin": 3.0},
            {"entity": "node:n02", "score": 2.1, "margin": -3.0},
        ],
        cleared=["node:n01"],
    )
    Finding.objects.create(
        incident=incident,
        key="hang:2",
        detector="D-01",
        klass="hang",
        stage="confirmed",
        entity="rank:412",
        began_at=ago(128),
        found_at=ago(70),
        confirmed_at=ago(65),
        facts={"deadline_s": 15.3, "median_step_s": 5.1},
        evidence=[
            {"at": 0, "weight": 3.0, "entity": "rank:412", "text": "rank 412 is absent from all-reduce 9911"},
            {"at": 0, "weight": 1.5, "entity": "node:n04", "text": "the process of rank 412 is in state D"},
        ],
    )
    execution = Execution.objects.create(
        runbook="restart-after-crash",
        version=1,
        incident=incident,
        run=run,
        attempt=2,
        state="waiting",
        step_index=2,
        created_at=ago(64),
        key=f"execution:{incident.pk}:2",
    )
    for index, (name, state) in enumerate((("collect", "done"), ("confirm", "done"), ("stop", "waiting"))):
        StepRun.objects.create(
            execution=execution,
            index=index,
            name=name,
            state=state,
            started_at=ago(60 - 10 * index),
            finished_at=ago(55 - 10 * index) if state == "done" else None,
            deadline=ago(-45) if state == "waiting" else None,
            sentence="Collected stacks: 31 of 32 ranks answered." if name == "collect" else "",
        )
    _rerun(incident)
    stream = f"incident:{incident.pk}"
    said = (
        ("opened", "Run llama-70b-v3 made no step for 70 s; its deadline was 15.3 s.", 70, "detector", "D-01"),
        ("confirmed", "The hang is confirmed: rank 412 is absent from all-reduce 9911.", 65, "detector", "D-01"),
        ("decision", "Chose restart-after-crash; n04 scores 5.1, ahead by 3.0.", 64, "runbook", "R-01"),
        ("step", "Collected stacks: 31 of 32 ranks answered.", 55, "runbook", "R-01"),
        ("note", "Saw the same on **n04** last week, see [the ticket](https://example.org/t/1).", 40, "person", "ana"),
    )
    for kind, sentence, seconds, actor_kind, actor in said:
        tell(
            stream,
            kind,
            sentence,
            at=ago(seconds + (40 if kind == "confirmed" else 0)),
            now=ago(seconds),
            actor_kind=actor_kind,
            actor=actor,
            data={"attempt": 2} if kind == "decision" else None,
        )
    tell(
        f"run:{run.name}",
        "launch",
        "Launched attempt 2 on n01, n02, n03, n04 from step 78900.",
        at=ago(3900),
        now=ago(3900),
        actor_kind="runbook",
    )
    return incident, execution


def _rerun(incident):
    """A replay that finds the hang 42 s earlier and leaves its node out."""
    since = incident.began_at - timedelta(minutes=30)
    found = {
        "class": "hang", "run": incident.run.name, "opened_t": 1821.0, "confirmed_t": 1821.0, "resolved_t": None,
        "severity": "critical", "title": "rank 412 hung on n04", "blamed": list(incident.blamed),
    }  # fmt: skip
    other = {**found, "class": "slow", "opened_t": 900.0, "title": "n02 takes 6 % longer per step"}
    done = {"t": 1824.0, "do": "restart", "run": incident.run.name, "step": 81_400, "exclude": ["n04"], "incident": 1}
    Rerun.objects.create(
        incident=incident, asked_by="ana", asked_at=incident.opened_at, state="done", since=since,
        until=incident.opened_at, events=48_211, overrides={"hang_floor_s": 15},
        report={"incidents": [other, found], "actions": [done], "accounting": {}, "fleet": {}},
    )  # fmt: skip


def _ledger(node, incident, ago):
    LedgerEntry.objects.create(
        node=node,
        at=ago(4000),
        from_state="healthy",
        to_state="quarantined",
        reason="ECC errors on GPU 3",
        evidence=[{"text": "12 uncorrected ECC errors in 10 min"}],
        actor_kind="runbook",
        actor="R-01",
        incident_id=incident.pk,
        strike=True,
    )
