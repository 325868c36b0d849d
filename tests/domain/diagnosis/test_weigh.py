"""Known values of methods 7, 11.12 and 11.14."""

import random

import pytest

from controlplane.domain.diagnosis.company import Launch, company_kept
from controlplane.domain.diagnosis.weigh import History, weigh
from controlplane.domain.findings import Evidence

NOW = 10_000.0


def line(entity="rank:1", weight=3.0, kind="cuda", *, at=0.0, text="x", bound_s=None):
    return Evidence(at=at, entity=entity, weight=weight, text=text, kind=kind, bound_s=bound_s)


def scores(*lines, **history):
    return dict(weigh(lines, now=NOW, history=History(**history)).scores)


def test_one_entity_counts_each_kind_once():
    assert scores(line(), line(text="again", at=5), line(kind="segfault", weight=4.0)) == {"rank:1": 7.0}


@pytest.mark.parametrize(("ranks", "each"), [(1, 4.0), (3, 2.0), (7, 4 / 3), (63, 4 / 6)])
def test_what_many_ranks_show_identifies_nobody(ranks, each):
    found = scores(*(line(f"rank:{number}", 4.0) for number in range(ranks)))
    assert found["rank:0"] == pytest.approx(each)


def test_the_discount_can_be_read():
    found = weigh([line(f"rank:{number}", 4.0, text="raised OSError") for number in range(3)], now=NOW)
    assert found.lines[0].text == "raised OSError (3 show the same, so 2 instead of 4)"


def test_consequences_are_not_discounted():
    assert scores(*(line(f"rank:{number}", -1.0) for number in range(63)))["rank:5"] == -1.0


def test_a_node_and_its_gpu_that_show_the_same_are_not_many():
    assert scores(line("gpu:a", 6.0, "xid 79"), line("node:n", 6.0, "xid 79")) == {"gpu:a": 6.0, "node:n": 6.0}


@pytest.mark.parametrize(("behind", "bound", "weight"), [(2, 1, 4.0), (12, 1, 2.0), (60, 1, 1.0), (60, 30, 4.0)])
def test_lateness_counts_only_beyond_the_bound_of_both_clocks(behind, bound, weight):
    first = line("rank:0", 4.0, "a", at=0, bound_s=float(bound))
    found = scores(first, line("rank:1", 4.0, "b", at=behind, bound_s=float(bound)))
    assert found["rank:0"] == 4.0
    assert found["rank:1"] == pytest.approx(weight)


def test_an_unknown_clock_gives_no_evidence_of_time():
    found = scores(line("rank:0", 4.0, "a", at=0, bound_s=1.0), line("rank:1", 4.0, "b", at=900, bound_s=None))
    assert found == {"rank:0": 4.0, "rank:1": 4.0}


def test_a_repeat_offender_weighs_more_only_when_something_speaks_against_it():
    assert scores(line("node:a", 3.0), offenders=frozenset({"node:a", "node:b"})) == {"node:a": 4.5}


def test_a_refuted_suspect_loses_four():
    assert scores(line("node:a", 3.0), refuted=frozenset({"node:a"})) == {"node:a": -1.0}


def test_order_and_repetition_change_nothing():
    lines = [line(f"rank:{number % 5}", float(number % 4) - 1, f"k{number % 3}", at=number) for number in range(40)]
    shuffled = [*lines, *lines[:7]]
    random.Random(7).shuffle(shuffled)
    assert weigh(lines, now=NOW) == weigh(shuffled, now=NOW)


def launches(*nodes, failed=True):
    return [Launch(nodes=frozenset(names.split()), failed=failed) for names in nodes]


def test_company_earns_one_per_failing_attempt_beyond_the_first():
    good = launches("b c d", failed=False)
    assert company_kept([*good, *launches("a b", "a c", "a d")]) == {"node:a": 2.0}
    assert company_kept([*good, *launches("a b", "a c", "a d", "a b", "a c", "a d")]) == {"node:a": 3.0}


@pytest.mark.parametrize(
    "known",
    [
        launches("a b", "a c"),
        launches("a b", "a c", "a d"),
        [*launches("a", failed=False), *launches("a b", "a c", "a d")],
        [*launches("z", failed=False), *launches("a b c d e", "a b c d e", "a b c d e")],
    ],
    ids=["two failures", "nothing to compare with", "there in a good one", "too many share it"],
)
def test_company_that_proves_nothing(known):
    assert company_kept(known) == {}
