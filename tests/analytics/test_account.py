"""The account joins events, findings and runbook steps; `tests/domain/accounting` holds its arithmetic."""

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.analytics.account import account
from controlplane.domain.accounting.intervals import Label
from controlplane.events import log
from controlplane.incidents.models import Finding, Incident
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs.models import Attempt, Run

NOW = datetime(2026, 11, 28, 3, 0, tzinfo=UTC)
BEGIN_MS = round(NOW.timestamp() * 1000)
END = NOW + timedelta(seconds=400)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def run(db):
    return Run.objects.create(name="alpha", launcher="head", nodes_wanted=2, gpus_per_node=4, created_at=NOW)


@pytest.fixture
def say(db):
    seqs = {}

    def say(node, *events):
        made = []
        for kind, attempt, second, data in events:
            seqs[node] = seqs.get(node, 0) + 1
            at_ms = BEGIN_MS + round(second * 1000)
            rank = None if kind == "attempt.started" else data.pop("rank", 0)
            made.append(make_event(kind, at_ms=at_ms, seq=seqs[node], run="alpha", attempt=attempt, rank=rank, **data))
        batch = Batch(agent=AgentIdentity(node=node, incarnation="one"), sent_at_ms=1, events=made)
        with transaction.atomic(), connection.cursor() as cursor:
            log.append(cursor, [decode_batch(encode_batch(batch))], at(1))

    return say


def steps(attempt, first, count, begin_s, **data):
    return [
        ("rank.step", attempt, begin_s + 10 * (place + 1), {"step": first + place, "duration_ms": 10_000, **data})
        for place in range(count)
    ]


@pytest.fixture
def crashed(run, say):
    """Ten steps, a crash found after 20 s, an approval of 30 s, nodes chosen, a second attempt with a restore."""
    Attempt.objects.create(
        run=run, number=1, started_at=NOW, state="exited", reason="killed", stopping_at=at(120), exited_at=at(125)
    )
    Attempt.objects.create(run=run, number=2, started_at=at(170), resume_step=8, state="running")
    incident = Incident.objects.create(
        run=run, attempt=1, klass="crash", severity="critical", title="it died", began_at=at(100), opened_at=at(105),
        mitigated_at=at(260),
    )  # fmt: skip
    Finding.objects.create(
        incident=incident, key="k", detector="D-03", klass="crash", stage="confirmed", entity="rank:1", attempt=1,
        began_at=at(100), found_at=at(105), confirmed_at=at(120),
    )  # fmt: skip
    work = Execution.objects.create(
        runbook="restart-after-crash", version=1, incident=incident, run=run, attempt=1, created_at=at(120),
        approved_by="ana", state="succeeded", key="one",
    )  # fmt: skip
    StepRun.objects.create(execution=work, index=0, name="stop", state="done", started_at=at(150))
    StepRun.objects.create(
        execution=work, index=1, name="choose_nodes", state="done", started_at=at(160), finished_at=at(161)
    )
    say("head", ("attempt.started", 1, 0, {"nodes": []}), ("attempt.started", 2, 200, {"nodes": []}))
    say(
        "n01", *steps(1, 1, 10, 0), *steps(1, 1, 10, 0.5, rank=3),
        ("rank.phase", 2, 210, {"phase": "restore", "state": "begin"}),
        ("rank.phase", 2, 240, {"phase": "restore", "state": "end"}),
        *steps(2, 9, 5, 250),
    )  # fmt: skip
    return run


def test_every_second_between_a_crash_and_the_next_step_has_its_cause(crashed):
    told = account(crashed, begin=NOW, end=END).goodput.by_label_ms
    assert told[Label.DETECT] == 20_000
    assert told[Label.WAIT_APPROVAL] == 30_000
    assert told[Label.DIAGNOSE] == 10_000
    assert told[Label.REPLACE] == 40_000
    assert told[Label.RESTORE] == 30_000
    assert told[Label.WARMUP] == 20_000
    assert told[Label.TRAIN_LOST] == 20_000
    assert told[Label.TRAIN_AT_RISK] == 130_000
    assert sum(told.values()) == 400_000


def test_the_spans_of_an_account_cover_its_window_without_gap_or_overlap(crashed):
    spans = account(crashed, begin=NOW, end=END).spans
    assert (spans[0].begin, spans[-1].end) == (BEGIN_MS, BEGIN_MS + 400_000)
    assert all(left.end == right.begin for left, right in pairwise(spans))


def test_only_the_lowest_rank_speaks_for_the_steps(crashed):
    assert account(crashed, begin=NOW, end=END).goodput.lost_steps == 2


def test_interruptions_are_measured_with_their_number(crashed):
    kept = account(crashed, begin=NOW, end=END).reliability
    assert (kept.interruptions, kept.planned) == (1, 0)
    assert (kept.detect.ms, kept.resume.ms, kept.caught_up.ms) == (20_000, 160_000, 180_000)


def test_the_command_prints_the_same_account_in_words_and_as_json(crashed):
    window = ("--run", "alpha", "--since", NOW.isoformat(), "--until", END.isoformat())
    out = io.StringIO()
    call_command("goodput", *window, "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert told["by_label_s"]["wait_approval"] == 30
    assert told["mttd_s"] == {"mean": 20.0, "n": 1}
    assert told["lost_gpu_hours"] == pytest.approx(8 * 270 / 3600)
    words = io.StringIO()
    call_command("goodput", *window, stdout=words)
    assert "goodput 32.5%" in words.getvalue()
    assert "MTTD" in words.getvalue()


def test_the_command_says_that_a_run_was_never_launched(run):
    with pytest.raises(CommandError, match="run alpha was never launched"):
        call_command("goodput", "--run", "alpha")


def test_the_command_refuses_a_run_that_it_does_not_know_and_a_window_turned_round(run):
    with pytest.raises(CommandError, match="no run is named beta"):
        call_command("goodput", "--run", "beta")
    with pytest.raises(CommandError, match="--since must be before --until"):
        call_command("goodput", "--run", "alpha", "--since", END.isoformat(), "--until", NOW.isoformat())
