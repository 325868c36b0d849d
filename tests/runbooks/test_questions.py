"""What a step that acts asks the database, and what it keeps still: on a bad night many runs wait for it at once."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection

from controlplane.chronicle import actions as chronicle
from controlplane.chronicle.models import Entry
from controlplane.incidents.models import Incident
from controlplane.runbooks import engine, registry
from controlplane.runbooks.models import Execution
from controlplane.runbooks.sdk import Action, Done, Effect, Outcome, Step, Turn, Words
from controlplane.runs.automation import LOCK
from controlplane.runs.models import Attempt, Run

NOW = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
STEPS, OF_A_STEP, OF_THE_REST = 9, 6, 9
"""What each step may ask, begin and commit among that; what claiming, ending and giving back may."""


class Act(Step):
    """End at once."""

    def look(self, turn: Turn) -> Outcome:
        return Done({"place": turn.execution.step_index})


WORDS = Words(next="act", doing="acting", done="Acted.", failed="No: {why}.")
ACTIONS: Sequence[tuple[Action, Step]] = [
    (Action(name="only_act", about="End at once.", effect=Effect.ACTS, limit_s=10, words=WORDS), Act())
]


@pytest.fixture
def execution(tmp_path, settings, monkeypatch):
    steps = "".join(f"  - do: only_act\n    name: s{number}\n" for number in range(STEPS))
    head = "runbook: acts\ncode: OPS-1\nversion: 1\ntitle: Act\nsummary: Acts.\nstart: {}\nsteps:\n"
    (tmp_path / "acts.yaml").write_text(head + steps)
    settings.RUNBOOK_FOLDERS, settings.RUNBOOK_ACTIONS = [str(tmp_path)], [__name__]
    monkeypatch.setattr(registry, "_shelf", None)
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    Attempt.objects.create(run=run, number=1, nodes=["n01"], started_at=NOW)
    incident = Incident.objects.create(run=run, klass="crash", title="It ended", began_at=NOW, opened_at=NOW)
    return Execution.objects.create(
        runbook="acts", version=1, incident=incident, run=run, attempt=1, approved_by="ana", created_at=NOW, key="acts"
    )


def ended(execution):
    execution.refresh_from_db()
    tries = execution.steps.values_list("index", "try_number", "state")
    return execution.state, list(tries) == [(index, 1, "done") for index in range(STEPS)]


def test_a_step_that_acts_asks_six_times_at_most(db, execution, django_assert_max_num_queries):
    with django_assert_max_num_queries(STEPS * OF_A_STEP + OF_THE_REST):
        engine.advance(execution.pk, "me", NOW)
    assert ended(execution) == ("succeeded", True)


@pytest.mark.django_db(transaction=True)
def test_while_an_act_is_decided_incident_run_and_switches_stay_as_they_are(execution, monkeypatch):
    free, other, look = [], connection.copy(), Act.look
    whats = (
        "id FROM runbooks_execution FOR NO KEY UPDATE SKIP LOCKED",
        "id FROM incidents_incident FOR NO KEY UPDATE SKIP LOCKED",
        "id FROM runs_run FOR NO KEY UPDATE SKIP LOCKED",
        f"1 WHERE pg_try_advisory_xact_lock({LOCK})",
    )

    def seen(self, turn):
        with other.cursor() as cursor:
            for what in whats:
                cursor.execute(f"SELECT {what}")
                free.extend((what, row) for row in cursor.fetchall())
        return look(self, turn)

    monkeypatch.setattr(Act, "look", seen)
    try:
        engine.advance(execution.pk, "me", NOW)
    finally:
        other.close()
    assert ended(execution) == ("succeeded", True)
    assert free == []


def test_a_step_whose_sentence_is_told_elsewhere_at_the_same_moment_is_made_again(db, execution, monkeypatch):
    tell, told = chronicle._tell_all, []

    def first_elsewhere(stream, sentences, now):
        told.append(stream)
        if len(told) == STEPS:
            raise IntegrityError("the key is there")
        return tell(stream, sentences, now)

    monkeypatch.setattr(chronicle, "_tell_all", first_elsewhere)
    engine.advance(execution.pk, "me", NOW)
    assert ended(execution) == ("succeeded", True)
    assert len(told) == STEPS + 1
    assert Entry.objects.filter(kind="step").count() == STEPS
