from datetime import UTC, datetime

import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.signals import Signal
from controlplane.runs import actions
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run
from controlplane.runs.projection import apply, members, spoken_for

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def run():
    run = actions.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)
    actions.open_attempt(run, ["n1", "n2"], actions.Resume(), NOW)
    return run


def signal(kind, *, node="n1", attempt=1, at=0.0, run="demo", **data):
    received = NOW.timestamp() + at
    return Signal(kind=kind, received=received, at_ms=0, node=node, run=run, attempt=attempt, rank=0, data=data)


def project(run, *signals, believed=None):
    book = Book(NOW)
    apply(run, signals, book, believed=believed)
    book.write()


def test_steps_of_a_chunk_move_the_attempt_and_the_run_once(run, django_assert_max_num_queries):
    steps = [signal("rank.step", step=number, at=number) for number in range(1, 501)]
    with django_assert_max_num_queries(8):
        project(run, *steps)
    attempt = Attempt.objects.get()
    assert (attempt.last_step, Run.objects.get().high_water_step) == (500, 500)
    assert attempt.first_step_at.timestamp() == NOW.timestamp() + 1
    assert attempt.beyond_at.timestamp() == NOW.timestamp() + 1


def test_the_high_water_step_never_falls_and_a_new_attempt_is_beyond_it_only_past_it(run):
    project(run, signal("rank.step", step=50))
    actions.close_attempt(Attempt.objects.get(), "failed", NOW)
    actions.open_attempt(run, ["n1", "n2"], actions.Resume(40), NOW)
    project(run, signal("rank.step", attempt=2, step=41), signal("rank.step", attempt=2, step=50))
    assert Run.objects.get().high_water_step == 50
    assert Attempt.objects.get(number=2).beyond_at is None
    project(run, signal("rank.step", attempt=2, step=51, at=9))
    assert Attempt.objects.get(number=2).beyond_at.timestamp() == NOW.timestamp() + 9


def test_a_step_number_far_beyond_what_the_reducer_believes_is_not_written(run):
    project(run, signal("rank.step", step=50), signal("rank.step", step=10**12), believed=50)
    assert (Attempt.objects.get().last_step, Run.objects.get().high_water_step) == (50, 50)


def test_the_same_signals_again_change_and_tell_nothing(run):
    signals = [
        signal("attempt.started", node="head", world_size=2, nodes=["n1", "n2"], job_id="7"),
        signal("rank.step", step=3),
        signal("attempt.exited", node="head", reason="failed", exit_code=1),
    ]
    project(run, *signals)
    before, told = Attempt.objects.values().get(), Entry.objects.count()
    project(run, *signals)
    assert (Attempt.objects.values().get(), Entry.objects.count()) == (before, told)
    assert (before["state"], before["reason"], before["job_id"], before["world_size"]) == ("exited", "failed", "7", 2)


@pytest.mark.parametrize("step", [True, -1, "7", 2**63, None, 1.5])
def test_a_step_that_is_no_number_is_left_out(run, step):
    project(run, signal("rank.step", step=step))
    assert Attempt.objects.get().last_step is None


@pytest.mark.parametrize("number", [None, 0, -1, 2**31])
def test_an_attempt_number_out_of_range_makes_nothing(run, number):
    project(run, signal("attempt.started", node="head", attempt=number))
    assert Attempt.objects.count() == 1


def test_an_end_that_we_asked_for_is_no_failure(run):
    actions.mark_stopping(Attempt.objects.get(), NOW)
    project(run, signal("attempt.exited", node="head", reason="failed"))
    assert Attempt.objects.get().reason == "killed"


def test_a_completed_attempt_completes_the_run(run):
    project(run, signal("attempt.exited", node="head", reason="completed", exit_code=0))
    assert Run.objects.get().state == "completed"


def test_an_attempt_that_somebody_else_launched_is_taken_in(run):
    actions.close_attempt(Attempt.objects.get(), "failed", NOW)
    project(run, signal("attempt.started", node="head", attempt=5, nodes=["n7"], world_size=1, resume={"step": 3}))
    attempt = Attempt.objects.get(number=5)
    assert (attempt.nodes, attempt.resume_step, attempt.state) == (["n7"], 3, "running")


@pytest.mark.parametrize(
    ("says", "spoken"),
    [
        (signal("rank.step", node="n1"), True),
        (signal("rank.exited", node="n9"), False),
        (signal("attempt.exited", node="n1"), False),
        (signal("attempt.exited", node="head"), True),
        (signal("rank.exited", node="n1", attempt=2), False),
        (signal("checkpoint", node="n2", attempt=None), True),
        (signal("node.heartbeat", node="n9", run=None, attempt=None), True),
        (signal("rank.step", node="n1", run="other"), False),
    ],
)
def test_a_node_speaks_only_for_its_own_part_of_the_run(run, says, spoken):
    assert spoken_for(run, members(run, run.attempts.all(), []), says) is spoken


def test_only_the_head_node_announces_who_belongs_to_an_attempt(run):
    announced = [
        signal("attempt.started", node="head", attempt=7, nodes=["n7"]),
        signal("attempt.started", node="n9", attempt=8, nodes=["n9"]),
    ]
    assert members(run, run.attempts.all(), announced) == {1: ["n1", "n2"], 7: ["n7"]}


def test_an_attempt_is_where_its_launcher_says_that_it_started_and_moves_no_more(run):
    there = signal("attempt.started", node="head", nodes=["n1", "n3"], resume={"step": 4, "path": "ck/4"})
    assert members(run, run.attempts.all(), [there]) == {1: ["n1", "n3"]}
    for told in (there, signal("attempt.started", node="head", nodes=["n9"], resume={"step": 9})):
        book = Book(NOW)
        actions.apply(run, [told], book)
    attempt = run.attempts.get()
    assert (attempt.nodes, attempt.resume_step, attempt.resume_path) == (["n1", "n3"], 4, "ck/4")
    assert members(run, [attempt], [told]) == {1: ["n1", "n3"]}
