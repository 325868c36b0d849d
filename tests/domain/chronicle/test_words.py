from dataclasses import replace

import pytest

from controlplane.domain.accounting.losses import Losses
from controlplane.domain.chronicle import sentences
from controlplane.domain.chronicle.kinds import LOOKS, Group, Kind, look
from controlplane.domain.chronicle.words import count, cut, duration, gpu_hours, listed, number
from controlplane.domain.findings import Evidence, Stage
from controlplane.domain.recovery.choice import Decision
from tests.domain.diagnosis.test_diagnose import finding, weigh
from tests.domain.recovery.shelf import CATALOG

RUNBOOK = CATALOG.runbooks["restart-after-crash"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.84, "0.8 s"),
        (47, "47 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (7200, "2 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_read_well(seconds, words):
    assert duration(seconds) == words


def test_numbers_read_well():
    assert (number(5050), number(81400), count(1, "step"), count(12, "step")) == (
        "5050",
        "81\u202f400",
        "1 step",
        "12 steps",
    )
    assert (gpu_hours(0.04), gpu_hours(3.14), gpu_hours(374.6)) == ("0.04", "3.1", "375")


def test_lists_name_six_and_count_the_rest():
    assert listed([]) == "none"
    assert listed(["n0"]) == "n0"
    assert listed(["n0", "n1", "n2"]) == "n0, n1 and n2"
    assert listed([f"n{place}" for place in range(9)]) == "n0, n1, n2, n3, n4, n5 and 3 more"


def test_what_many_ranks_show_alike_is_told_once():
    lines = tuple(
        Evidence(at=0.0, entity=f"rank:{rank}", weight=4.0, text=f"rank {rank} raised OSError", kind="OSError")
        for rank in range(64)
    )
    told = sentences.evidence(replace(finding("crash"), evidence=lines))
    assert told == "Evidence: rank 0 raised OSError, and 63 others alike (+4 each, shared by all)."


def test_a_long_text_is_cut_between_two_words():
    assert cut("node n03 fell silent", 40) == "node n03 fell silent"
    assert cut("node n03 fell silent", 14) == "node n03 fell…"
    assert cut("node n03 fell silent", 12) == "node n03…"
    assert cut("x" * 50, 10) == "x" * 9 + "…"


def test_every_kind_has_a_look_and_every_filter_a_kind():
    assert set(LOOKS) == set(Kind)
    assert {shown.group for shown in LOOKS.values()} == set(Group)
    assert look("of a later version").word == "Entry"


def test_an_opening_says_whether_it_is_a_suspicion():
    sure = weigh(finding("crash", sentence="rank 2 died"))
    unsure = weigh(finding("hang", sentence="no step", stage=Stage.SUSPECT))
    assert sentences.opened(sure, run="demo") == "Opened for run demo: rank 2 died."
    assert sentences.opened(unsure, run="demo") == "Opened for run demo (a suspicion): no step."
    assert sentences.opened(sure, run=None) == "Opened for the fleet: rank 2 died."


def test_an_opening_names_its_run_once():
    slow = weigh(finding("fail_slow", sentence="run demo has been 33.6% slower since step 40"))
    assert sentences.opened(slow, run="demo") == "Opened: run demo has been 33.6% slower since step 40."
    assert sentences.opened(slow, run="dem").startswith("Opened for run dem: ")


def test_a_decision_says_why_also_when_nothing_is_done():
    held = Decision(runbook=RUNBOOK.id, why="ana holds the run", held_by="operator")
    assert sentences.decision(held, RUNBOOK).endswith("but did not start it: ana holds the run.")
    assert sentences.decision(Decision(runbook=None, why="the run is completed"), None) == (
        "Decided to do nothing: the run is completed."
    )


def test_losses_carry_units_and_their_confidence():
    cost = Losses(steps=12, seconds=185, gpu_hours=0.0412, confidence="measured")
    assert sentences.losses(cost) == "Lost 12 steps, 3 min 5 s and 0.04 GPU-hours (measured)."


def test_evidence_names_the_strongest_lines_with_their_weight():
    item = finding("hang", ("node:n2", 3.0, "gave no stack"), ("rank:1", -1.0, "timed out"))
    assert sentences.evidence(item) == (
        "Evidence: gave no stack (fair against node n2, +3); timed out (in favour of rank 1, -1)."
    )


def test_every_sentence_ends_once():
    assert sentences.full_stop("done.") == "done."
    assert sentences.full_stop("done ") == "done."


def test_a_quarantine_does_not_name_its_node_twice():
    assert sentences.quarantined("n04", "node n04 is lost: it is silent") == (
        "Quarantined node n04, which is lost: it is silent."
    )
    assert sentences.quarantined("n04", "GPU fell off the bus") == "Quarantined node n04: GPU fell off the bus."
