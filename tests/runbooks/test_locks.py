"""Two who write the same rows from two sides do not wait for each other in a circle."""

from datetime import UTC, datetime
from threading import Event, Thread

import pytest
from django.db import connection, transaction

from controlplane.domain.errors import Conflict
from controlplane.incidents.models import Incident
from controlplane.runbooks import approvals
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.mark.django_db(transaction=True)
def test_a_second_yes_does_not_wait_for_the_execution_that_the_first_has_set_to_work():
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    incident = Incident.objects.create(run=run, klass="crash", title="It died.", began_at=NOW, opened_at=NOW)
    execution = Execution.objects.create(
        runbook="restart", version=1, incident=incident, run=run, attempt=1, state="running", created_at=NOW, key="1"
    )
    working, answered = Event(), Event()

    def turn():
        with transaction.atomic():
            Execution.objects.select_for_update(no_key=True).get(pk=execution.pk)
            working.set()
            answered.wait(10)
        connection.close()

    worker = Thread(target=turn)
    worker.start()
    assert working.wait(10)
    try:
        with pytest.raises(Conflict, match="running by now"):
            impatiently_approve(execution)
    finally:
        answered.set()
        worker.join()


def impatiently_approve(execution):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '50ms'")
        approvals.approve(execution, "ana", NOW)
