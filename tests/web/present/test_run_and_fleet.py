from datetime import UTC, datetime, timedelta

import pytest

from controlplane.fleet.models import Node
from controlplane.runs.models import Attempt, Run
from controlplane.web.present import fleet, spark
from controlplane.web.present import run as present
from controlplane.web.present.needs import Need

PERSON, RECOVERING, WATCHED = Need.PERSON, Need.RECOVERING, Need.WATCHED
NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def run(state="running", **more):
    return Run(**{"name": "llama", "state": state, "high_water_step": 1200, **more})


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("waiting", "Run llama has not started yet"),
        ("running", "Run llama is training, step 1\u202f200"),
        ("recovering", "Run llama is stopped and being recovered"),
        ("completed", "Run llama has completed at step 1\u202f200"),
    ],
)
def test_a_run_says_how_it_stands(state, sentence):
    assert present.card(run(state), None).headline == sentence


def test_a_held_run_says_that_nothing_will_be_done():
    assert present.card(run(held=True, held_by="bo"), None).where.startswith("Held by bo: Middlewatch says")


def test_a_run_whose_attempt_ended_is_not_called_training_while_nothing_recovers_it():
    dead = Attempt(number=2, nodes=["n01"], state="exited", reason="failed")
    said = present.card(run(), dead)
    assert (said.headline, said.tone) == ("Run llama stands still at step 1\u202f200", "bad")
    assert said.badge.word == "Standing still"


def test_a_recovering_run_that_repeats_steps_is_not_called_stopped():
    again = Attempt(number=2, nodes=["n01"], state="running", last_step=1100)
    said = present.card(run("recovering"), again)
    assert (said.headline, said.tone) == ("Run llama is being recovered", "bad")
    assert said.where == "Attempt 2 on 1 node is at step 1\u202f100; step 1\u202f200 was reached before."
    stuck = Attempt(number=2, nodes=["n01", "n02"], state="running", last_step=1200)
    assert present.card(run("recovering"), stuck).headline == "Run llama is stopped and being recovered"
    assert present.card(run("recovering"), stuck).where == "Attempt 2 on 2 nodes."


def test_a_run_with_a_confirmed_fault_stands_still_though_its_ranks_still_live():
    living = Attempt(number=2, nodes=["n01"], state="running", last_step=1200)
    assert present.card(run(), living).tone == "good"
    assert present.card(run(), living, hurt=True).tone == "bad"


def test_a_run_that_nobody_hears_is_not_called_training():
    living = Attempt(number=2, nodes=["n01"], state="running", last_step=1200)
    said = present.card(run(), living, unseen=True)
    assert said.headline == "Run llama was training when it was last heard, at step 1\u202f200"
    assert (said.badge.word, said.tone) == ("Not seen", "warn")
    assert present.card(run(), living, hurt=True, unseen=True).badge.word == "Standing still"


def attempts():
    return [
        Attempt(
            number=1,
            started_at=ago(100),
            first_step_at=ago(90),
            last_step_at=ago(50),
            exited_at=ago(45),
            reason="failed",
        ),
        Attempt(number=2, started_at=ago(30), first_step_at=ago(20), last_step_at=ago(5)),
    ]


def causes(pieces):
    return [(piece.cause, round(piece.x), round(piece.width)) for piece in pieces]


@pytest.mark.parametrize(
    ("states", "asks", "sentence"),
    [
        ([], [], "No run is known yet"),
        (["running"] * 5, [], "All 5 runs are progressing"),
        (["running"], [], "Run llama is progressing"),
        (["recovering"], [[PERSON]], "Run llama needs you"),
        (["running", "recovering"], [[], [WATCHED, PERSON]], "1 of 2 runs needs you"),
        (["recovering"], [[RECOVERING]], "Run llama is recovering without you"),
        (["running", "recovering", "recovering"], [[WATCHED], [RECOVERING], [RECOVERING, WATCHED]],
         "2 of 3 runs are recovering without you"),
        (["running", "running"], [[WATCHED]], "1 of 2 runs is watched closely"),
        (["running", "completed", "running"], [], "2 of 3 runs are progressing, nothing is wrong"),
        (["completed"], [], "Run llama is not training"),
        (["completed", "stopped"], [], "None of 2 runs is training"),
    ],
)  # fmt: skip
def test_the_fleet_says_in_one_sentence_how_it_stands_and_whether_it_needs_a_person(states, asks, sentence):
    assert fleet.standing([run(state) for state in states], dict(enumerate(asks))).sentence == sentence


def test_what_recovers_beside_a_run_that_needs_a_person_is_not_left_out():
    said = fleet.standing([run()] * 3, {1: [PERSON], 2: [RECOVERING]})
    assert (said.sentence, said.beside) == ("1 of 3 runs needs you", "1 other is recovering without you.")


def test_a_trouble_of_the_fleet_is_not_called_progress():
    assert fleet.standing([run()], {}, [PERSON]).sentence == "The fleet needs you"
    assert fleet.standing([run()], {}, [WATCHED]).sentence == "The fleet is watched closely"


def node(name, state="healthy", seen=2, rack="r1", since=None, **more):
    return Node(
        name=name,
        state=state,
        state_since=since or ago(4000),
        last_seen_at=None if seen is None else ago(seen),
        labels={"rack": rack} if rack else {},
        **more,
    )


def test_nodes_are_grouped_by_rack():
    groups = fleet.racks([node("b", rack="r2"), node("a"), node("c", rack=None)], NOW)
    assert [(group.name, [cell.name for cell in group.cells]) for group in groups] == [
        ("no rack", ["c"]),
        ("r1", ["a"]),
        ("r2", ["b"]),
    ]


def test_silence_greys_a_node_and_never_turns_it_into_a_failure():
    silent = fleet.cell(node("a", seen=400), NOW)
    assert (silent.old, silent.said) == (True, "silent")
    assert fleet.cell(node("a", "unknown", seen=None), NOW).said == "not heard yet"
    assert silent.badge.word == "Healthy"
    assert fleet.node_sentence(node("a", seen=400), NOW) == (
        "Node a was last heard 6 min ago; it was healthy then",
        "warn",
    )


def test_a_silent_spare_is_not_counted_among_those_that_are_left():
    assert fleet.spares([node("a", "spare"), node("b", "spare", seen=400)], NOW) == (1, ", 1 more is silent")
    assert fleet.spares([node("a", "spare")], NOW) == (1, "")


def test_a_silent_node_that_a_person_has_moved_since_is_not_said_to_have_been_so_before():
    assert fleet.node_sentence(node("a", "spare", seen=400, since=ago(60)), NOW) == (
        "Node a is spare and was last heard 6 min ago",
        "warn",
    )


def test_a_verdict_stands_though_the_node_is_silent():
    said, _ = fleet.node_sentence(node("a", "quarantined", seen=400), NOW)
    assert said == "Node a is quarantined and was last heard 6 min ago"


def test_the_launcher_is_shown_as_what_it_is_and_not_as_a_spare():
    shown = fleet.cell(node("head", "spare", head=True), NOW)
    assert (shown.badge.word, shown.badge.letter) == ("Launcher", "L")


def test_a_node_that_never_spoke_is_not_called_healthy():
    assert "has not said hello" in fleet.node_sentence(node("a", "unknown", seen=None), NOW)[0]


def test_a_spark_line_needs_two_values_and_starts_at_zero():
    assert spark.points([5.0]) == ""
    assert spark.points([0.0, 10.0]) == "0.0,22.0 120.0,2.0"
