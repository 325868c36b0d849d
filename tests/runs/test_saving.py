"""A person asks a training for a checkpoint: what is sent, what is refused, what is told."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Conflict, Refused
from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command, Node
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt
from controlplane.runs.saving import living, save_now, why_not
from controlplane.watch import results

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


@pytest.fixture
def run(db):
    for name in ("n1", "n2"):
        Node.objects.create(name=name, enrolled_at=NOW, state_since=NOW)
    made = runs.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)
    runs.open_attempt(made, ["n2", "n1"], runs.Resume(), NOW)
    started(made, supports=["save_now", "skip_batches"])
    return made


def started(run, **data) -> None:
    facts = {"scheduler": "local", "nodes": ["n2", "n1"], "world_size": 2, **data}
    number = run.attempts.last().number
    signal = Signal(
        kind="attempt.started", received=NOW.timestamp(), at_ms=1, node="head", incarnation="i", run="demo",
        attempt=number, rank=None, data=facts,
    )  # fmt: skip
    book = Book(NOW)
    runs.apply(run, [signal], book)
    book.write()


def told() -> list[str]:
    return list(Entry.objects.filter(stream__name="run:demo").order_by("pk").values_list("sentence", flat=True))


def answer(command: Command, **data: object) -> None:
    book = Book(NOW)
    results.ended(fleet.record_result(command.pk, data, NOW), NOW, book)
    book.write()


def test_the_switch_goes_to_the_node_of_rank_0_and_the_asking_is_told(run):
    command = save_now(run, "ana", NOW)
    assert (command.kind, command.node.name) == ("switch.arm", "n2")
    assert command.args == {"run": "demo", "attempt": 1, "what": "save"}
    assert told()[-1] == "ana asked for a checkpoint now."


def test_what_came_of_it_is_told(run):
    answer(save_now(run, "ana", NOW), state="succeeded", data={"acknowledged": [0], "step": 1204})
    assert told()[-1] == "The training took the request for a checkpoint after step 1204."
    later = save_now(run, "ben", NOW + timedelta(minutes=1))
    answer(later, state="failed", output_tail="no rank took it before the deadline; it is disarmed")
    assert told()[-1].startswith("The training did not begin the checkpoint: no rank took it")


def test_a_second_asking_waits_for_the_answer_to_the_first(run):
    save_now(run, "ana", NOW)
    with pytest.raises(Conflict, match="already"):
        save_now(run, "ben", NOW + timedelta(seconds=1))


def test_a_workload_that_cannot_save_on_demand_is_not_asked(run):
    Attempt.objects.update(supports=["skip_batches"])
    with pytest.raises(Refused, match="training supports save_now"):
        save_now(run, "ana", NOW)
    assert not Command.objects.exists()


def test_nobody_is_asked_while_nothing_trains(run):
    runs.close_attempt(run.attempts.get(), "failed", NOW)
    assert why_not(living(run)) == "no attempt is running"
    with pytest.raises(Refused, match="no attempt is running"):
        save_now(run, "ana", NOW)


def test_what_a_workload_supports_is_bounded_and_must_be_a_list(run):
    runs.close_attempt(run.attempts.get(), "failed", NOW)
    for number, supports in enumerate((["x" * 99] * 99, "save_now"), 2):
        attempt = runs.open_attempt(run, ["n2"], runs.Resume(), NOW)
        started(run, supports=supports)
        attempt.refresh_from_db()
        assert attempt.supports == (["x" * 40] * 32 if number == 2 else [])
        runs.close_attempt(attempt, "failed", NOW)
