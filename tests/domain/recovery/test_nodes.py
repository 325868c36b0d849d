import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.nodes import Candidate, choose_nodes

POLICY = RunPolicy()


def node(name, state="healthy", age=2.0, **words):
    return Candidate(name=name, state=state, last_beat_age_s=age, **words)


def pick(candidates, *, wanted=3, current=("n0", "n1", "n2"), exclude=(), least=None):
    return choose_nodes(
        wanted=wanted, current=current, candidates=candidates, exclude=dict.fromkeys(exclude, "blamed"), policy=POLICY,
        least=least,
    )  # fmt: skip


GOOD = [node("n0"), node("n1"), node("n2"), node("s0", "spare"), node("s1", "spare")]


def test_good_nodes_are_kept_in_their_order():
    choice = pick(GOOD)
    assert (choice.nodes, choice.replaced, choice.complete) == (("n0", "n1", "n2"), {}, True)


def test_a_spare_takes_the_place_of_the_node_left_out():
    choice = pick(GOOD, exclude=("n1",))
    assert (choice.nodes, choice.replaced) == (("n0", "s0", "n2"), {"n1": "s0"})
    assert "s0 takes the place of n1" in choice.why


@pytest.mark.parametrize(
    "bad",
    [
        node("n1", "quarantined"),
        node("n1", "draining"),
        node("n1", "retired"),
        node("n1", held=True),
        node("n1", conflict=True),
        node("n1", busy="other"),
    ],
)
def test_a_node_that_may_not_be_used_is_replaced(bad):
    choice = pick([GOOD[0], bad, *GOOD[2:]])
    assert choice.nodes == ("n0", "s0", "n2")
    assert choice.refused["n1"]


def test_a_silent_node_that_is_not_judged_is_waited_for_and_costs_no_spare_yet():
    choice = pick([GOOD[0], node("n1", age=20.0), *GOOD[2:]])
    assert (choice.waiting_for, choice.replaced, choice.complete, choice.missing) == (("n1",), {}, False, 0)


def test_a_silent_node_that_was_judged_is_replaced():
    choice = pick([GOOD[0], node("n1", age=95.0), *GOOD[2:]], exclude=("n1",))
    assert (choice.nodes, choice.complete) == (("n0", "s0", "n2"), True)


def test_without_a_spare_the_number_missing_is_told():
    choice = pick(GOOD[:3], exclude=("n1",))
    assert (choice.missing, choice.complete, choice.nodes) == (1, False, ("n0", "n2"))
    assert "1 more node is needed" in choice.why


@pytest.mark.parametrize("bad", [node("s0", "suspect"), node("s0", "spare", age=None), node("s0", "spare", age=40.0)])
def test_a_doubtful_node_is_never_brought_in_from_outside(bad):
    choice = pick([*GOOD[:3], bad], exclude=("n1",))
    assert choice.missing == 1


def test_a_suspect_that_already_serves_stays_unless_it_is_excluded():
    assert pick([node("n0", "suspect"), *GOOD[1:]]).nodes[0] == "n0"


def test_the_first_launch_takes_spares_before_healthy_strangers():
    choice = pick([node("h0"), node("s0", "spare"), node("s1", "spare")], wanted=2, current=())
    assert choice.nodes == ("s0", "s1")


def test_a_node_that_the_ledger_does_not_know_is_replaced():
    choice = pick(GOOD, current=("n0", "ghost", "n2"))
    assert choice.replaced == {"ghost": "s0"}
    assert choice.refused["ghost"] == "unknown to the ledger"


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ({}, {"rack": "r1"}, "s1"),
        ({"rack": "r1"}, {"switch": "w1"}, "s1"),
        ({"rack": "r2"}, {"rack": "r3"}, "s0"),
        ({}, {}, "s0"),
    ],
)
def test_the_nearest_spare_is_taken_same_switch_before_same_rack(first, second, taken):
    bad = node("n1", place={"rack": "r1", "switch": "w1"})
    spares = [node("s0", "spare", place=first), node("s1", "spare", place=second)]
    assert pick([GOOD[0], bad, GOOD[2], *spares], exclude=("n1",)).replaced == {"n1": taken}


def test_a_run_that_may_get_smaller_goes_on_with_what_there_is_but_never_below_its_least():
    assert not pick(GOOD[:3], exclude=("n1",), least=3).complete
    smaller = pick(GOOD[:3], exclude=("n1",), least=2)
    assert (smaller.nodes, smaller.complete) == (("n0", "n2"), True)
    assert smaller.why == "no more are free, and the run may go on with 2 of 3 nodes"
    assert not pick([GOOD[0], node("n1", age=20.0), node("n2", "quarantined")], least=1).complete
