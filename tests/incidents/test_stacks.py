"""The picture of who stood where, made of stored events and kept with the incident."""

from datetime import datetime, timedelta

from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.events import log
from controlplane.incidents import queries, stacks
from controlplane.incidents.models import Incident, StackPicture
from controlplane.incidents.stacks import Asked
from tests.incidents.conftest import NOW

REDUCE = ["all_reduce (torch/distributed/distributed_c10d.py:2806)", "average (job/train.py:88)"]
LOADER = ["__next__ (torch/utils/data/dataloader.py:730)", "batches (job/dataset.py:41)"]


def arrive(*said: tuple[int, dict], attempt: int = 1, at: datetime = NOW) -> None:
    events = [
        make_event("rank.stack", at_ms=1, seq=number, run="demo", attempt=attempt, rank=rank, **data)
        for number, (rank, data) in enumerate(said, 1)
    ]
    agent = AgentIdentity(node="n1", incarnation=f"life-{attempt}-{at.timestamp()}")
    batch = decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=events)))
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [batch], at)


def stack(tool: str, frames: list[str], *, ok: bool = True) -> dict:
    return {"tool": tool, "ok": ok, "frames": frames}


def test_stacks_of_an_attempt_become_groups(run):
    arrive(
        (0, stack("proc", ["state S (sleeping)"])), (0, stack("worker_server", REDUCE)),
        (1, stack("worker_server", ["no answer"], ok=False)), (1, stack("py-spy", LOADER, ok=False)),
        (2, stack("faulthandler", REDUCE)), (3, stack("py-spy", LOADER)),
    )  # fmt: skip
    arrive((4, stack("worker_server", LOADER)), attempt=2)
    arrive((5, stack("worker_server", LOADER)), at=NOW - timedelta(minutes=1))
    asked = {1: Asked("T"), 6: Asked("", answered=True)}
    groups = stacks.look("demo", 1, since=NOW, asked=asked)
    assert [(one.ranks, one.words) for one in groups] == [
        ((1,), "did not answer (stopped)"), ((3,), "stands in the data loader (dataset.py:41)"),
        ((6,), "gave no stack"), ((0, 2), "waits in all_reduce (train.py:88)"),
    ]  # fmt: skip
    assert groups[0].frames == tuple(LOADER)


def test_a_picture_is_kept_once_per_attempt_and_the_newest_is_shown(run):
    incident = Incident.objects.create(run=run, klass="hang", title="it hangs", began_at=NOW, opened_at=NOW)
    assert queries.stack_groups(incident) == ()
    arrive((0, stack("worker_server", REDUCE)))
    first = stacks.look("demo", 1, since=NOW, asked={})
    for attempt in (1, 1, 2):
        stacks.keep(incident, attempt, first, NOW)
    assert StackPicture.objects.count() == 2
    assert queries.stack_groups(incident) == queries.stack_groups(incident, 1) == first
    assert queries.stack_groups(incident, 7) == ()
