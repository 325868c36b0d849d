"""Two who write the same rows from two sides do not wait for each other in a circle."""

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from controlplane.domain.errors import Conflict
from controlplane.embedded.child import wait_until
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Node
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import stream
from controlplane.runbooks import actions, approvals, consider, engine, registry, transitions
from controlplane.runbooks.models import Approval, Execution
from controlplane.runbooks.outcomes import Propose
from controlplane.runbooks.turn import Turn
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run
from controlplane.watch import tasks
from tests.patience import within

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)

WRITES = re.compile(r'(?:UPDATE|INSERT INTO) "?(\w+)')

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def execution():
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    incident = Incident.objects.create(run=run, klass="crash", title="It died.", began_at=NOW, opened_at=NOW)
    return Execution.objects.create(
        runbook="restart-after-crash",
        version=1,
        incident=incident,
        run=run,
        attempt=1,
        state="running",
        created_at=NOW,
        key="1",
    )


def test_a_second_yes_does_not_wait_for_the_execution_that_the_first_has_set_to_work(execution):
    with somebody_holding(execution), pytest.raises(Conflict, match="running by now"):
        impatiently_approve(execution)


@contextmanager
def somebody_holding(execution):
    """Let a worker have the execution's row for as long."""
    held, enough = Event(), Event()

    def turn():
        with transaction.atomic():
            Execution.objects.select_for_update(no_key=True).get(pk=execution.pk)
            held.set()
            enough.wait(10)
        connection.close()

    worker = Thread(target=turn)
    worker.start()
    assert held.wait(10)
    try:
        yield
    finally:
        enough.set()
        worker.join()


def impatiently_approve(execution):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '50ms'")
        approvals.approve(execution, "ana", NOW)


def stopped_by_a_person(execution):
    actions.stop(execution, "ana", NOW)


def stopped_by_the_end_of_its_run(execution):
    engine.advance(execution.pk, "me", NOW)
    execution.refresh_from_db()


@pytest.mark.parametrize("stop", [stopped_by_a_person, stopped_by_the_end_of_its_run])
def test_a_sweep_tells_and_takes_results_while_the_runbook_of_its_run_is_stopped(execution, stop):
    Run.objects.filter(pk=execution.run_id).update(state="completed")
    Node.objects.create(name="head", state_since=NOW, enrolled_at=NOW)
    sent = fleet.send_command(
        "head", "attempt.stop", {"run": "demo", "attempt": 1, "grace_s": 0.5},
        key="1:stop:1", deadline=NOW + timedelta(seconds=30), now=NOW, execution_id=execution.pk,
    )  # fmt: skip

    def hear():
        fleet.record_result(sent.pk, {"state": "running"}, NOW)
        tell(execution, "note", "It was heard.")

    with sweeping(execution.run, hear):
        stop(execution)
    assert execution.state == "stopped"


def tell(execution, kind, sentence):
    book = Book(NOW)
    book.tell(stream(execution.incident), kind, sentence)
    book.write()


@contextmanager
def sweeping(run, then):
    """Let a sweep hold the run and do `then` once somebody waits for it; neither may end the other."""
    begun, trouble = Event(), []

    def sweep():
        try:
            with transaction.atomic():
                Run.objects.select_for_update(no_key=True).get(pk=run.pk)
                begun.set()
                assert wait_until(somebody_waits, within(10))
                then()
        except (DatabaseError, AssertionError) as error:
            trouble.append(error)
        connection.close()

    worker = Thread(target=sweep)
    worker.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        worker.join()
    assert trouble == []


def nobody_answers(execution, _by, now):
    approvals.lapse(now)
    execution.refresh_from_db()


@pytest.mark.parametrize(
    ("act", "state"), [(actions.stop, "stopped"), (actions.reject, "rejected"), (nobody_answers, "proposed")]
)
def test_who_ends_a_proposal_keeps_nobody_from_telling_of_it_and_taking_it_back(execution, act, state):
    Execution.objects.update(state="proposed")
    Approval.objects.create(execution=execution, asked_at=NOW, until=NOW)

    def take_back():
        tell(execution, "decision", "It is over.")
        Approval.objects.select_for_update().get(execution=execution)
        Execution.objects.select_for_update(no_key=True).get(pk=execution.pk)

    with sweeping(execution.run, take_back):
        act(execution, "bo", NOW)
    assert execution.state == state


@pytest.mark.parametrize("state", ["running", "paused"])
def test_who_decides_on_a_run_waits_for_no_execution_that_somebody_holds(execution, state):
    Attempt.objects.create(run=execution.run, number=2, nodes=["n01"], started_at=NOW)
    Execution.objects.update(state=state)
    with somebody_holding(execution):
        assert not impatiently_end(execution)
    assert impatiently_end(execution)


def impatiently_end(execution):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '50ms'")
        consider._end_overtaken(execution.run, NOW)
        consider._end_patient(execution, execution.incident, NOW)
    execution.refresh_from_db()
    return execution.state == "stopped"


def test_who_stops_a_runbook_tells_it_last_as_who_closes_its_question_does(execution):
    Approval.objects.create(execution=execution, asked_at=NOW, until=NOW)
    with CaptureQueriesContext(connection) as asked:
        actions.stop(execution, "ana", NOW)
    written = [found[1] for query in asked if (found := WRITES.search(query["sql"]))]
    assert written.index("runbooks_approval") < written.index("chronicle_stream")
    assert set(written[written.index("chronicle_stream") :]) == {"chronicle_stream"}


def test_a_step_that_asks_people_tells_it_last(execution):
    Approval.objects.create(execution=execution, purpose="undo", asked_at=NOW, until=NOW)
    runbook = registry.runbook(execution.runbook)
    turn = Turn(execution, runbook, NOW, Book(NOW, "runbook", runbook.id))
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        transitions.settle(turn, Propose("mode", "the run is set to propose"))
        transitions.write([turn])
    written = [found[1] for query in asked if (found := WRITES.search(query["sql"]))]
    assert written.count("runbooks_approval") == 2
    assert set(written[written.index("chronicle_stream") :]) == {"chronicle_stream"}


def test_a_sweep_takes_the_late_result_of_a_command_while_its_time_is_found_to_be_over(execution):
    Execution.objects.update(state="failed")
    Attempt.objects.create(run=execution.run, number=1, nodes=["n01"], started_at=NOW, stopping_at=NOW)
    Node.objects.create(name="head", state_since=NOW, enrolled_at=NOW)
    args = {"run": "demo", "attempt": 1, "grace_s": 0.5}
    sent = fleet.send_command("head", "attempt.stop", args, key="1", deadline=NOW, now=NOW)
    with sweeping(execution.run, lambda: fleet.record_result(sent.pk, {"state": "succeeded"}, NOW)):
        tasks._expire(NOW)
    sent.refresh_from_db()
    assert sent.state == "succeeded"


def somebody_waits():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]
