from datetime import timedelta

import pytest
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.analytics import sources
from controlplane.analytics.account import account
from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.errors import Invalid
from controlplane.events import log
from controlplane.runs.models import Attempt
from tests.api.conftest import NOW

STEP_MS = 10_000
BEGIN_MS = round(NOW.timestamp() * 1000)


@pytest.fixture
def make_steps(db):
    def make(attempt, numbers, begin_ms):
        ends = [begin_ms + (place + 1) * STEP_MS for place in range(len(numbers))]
        events = [
            make_event(
                "rank.step", at_ms=end, seq=place + 1, run="demo", attempt=attempt, rank=0, step=number,
                duration_ms=STEP_MS,
            )
            for place, (number, end) in enumerate(zip(numbers, ends, strict=True))
        ]  # fmt: skip
        agent = AgentIdentity(node="n01", incarnation=f"i{attempt}")
        batch = decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=events)))
        with transaction.atomic(), connection.cursor() as cursor:
            log.append(cursor, [batch], NOW + timedelta(minutes=1))

    return make


def test_steps_that_were_made_twice_count_once(api, run, attempt, make_steps):
    make_steps(1, range(1, 11), BEGIN_MS)
    Attempt.objects.create(run=run, number=2, started_at=NOW, resume_step=6)
    Checkpoint.objects.create(run=run, step=6, path="step-6", state="complete", attempt=1)
    make_steps(2, range(7, 12), BEGIN_MS + 20 * STEP_MS)
    told = account(run, begin=NOW, end=NOW + timedelta(milliseconds=25 * STEP_MS)).goodput
    assert told.lost_steps == 4
    assert told.safe == pytest.approx(6 / 25)
    assert told.productive == pytest.approx(11 / 25)


def test_a_run_without_an_attempt_has_no_goodput(api, run):
    shown = api.get("runs/demo/goodput").json()
    assert (shown["goodput"], shown["elapsed_ms"]) == (0, 0)


def test_the_account_of_a_run_adds_up(api, run, attempt, make_steps):
    make_steps(1, range(1, 11), BEGIN_MS)
    shown = api.get("runs/demo/goodput").json()
    assert sum(shown["by_label_ms"].values()) == shown["elapsed_ms"]


def test_a_window_with_too_many_steps_is_refused(run, attempt, make_steps, monkeypatch):
    make_steps(1, range(1, 11), BEGIN_MS)
    monkeypatch.setattr(sources, "MAX_STEPS", 9)
    with pytest.raises(Invalid, match="since: the window holds more than 9 steps"):
        account(run, begin=NOW, end=NOW + timedelta(hours=1))
