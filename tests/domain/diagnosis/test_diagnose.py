"""The worked examples of methods 7, as far as their kinds of evidence exist, and the rules of acting."""

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.diagnosis.inhibit import HELD_BEFORE, OVER_AT
from controlplane.domain.findings import Evidence, Finding, Stage
from tests.domain.detection.test_deaths import training, verdict

NOW = 1000.0
POLICY = RunPolicy()


def finding(klass="crash", *lines, stage=Stage.CONFIRMED, began=NOW, at=NOW, **words):
    evidence = tuple(Evidence(at=at, entity=entity, weight=weight, text=text) for entity, weight, text in lines)
    start = {"key": klass, "detector": "D", "entity": "run", "run": "demo", "attempt": 1, "sentence": f"a {klass}"}
    return Finding(klass=klass, stage=stage, began=began, at=at, evidence=evidence, **{**start, **words})


def weigh(*findings):
    return diagnose(findings, now=NOW, policy=POLICY)


def test_example_a_victims_that_time_out_are_cleared_and_the_fatal_card_is_blamed():
    victims = [(f"rank:{number}", -1.0, "timed out") for number in range(63)]
    found = weigh(finding("gpu_fault", ("node:n02", 6.0, "Xid 79"), *victims))
    assert (found.blamed[0].entity, found.act_on) == ("node:n02", "n02")
    assert len(found.cleared) == 63


def test_example_b_the_same_exception_everywhere_touches_no_node():
    stage = training()
    for rank in range(4):
        error = {"type": "AssertionError", "message": "vocab size"}
        stage.rank("rank.exited", rank, exit_code=1, error=error)
    stage.wait(2)
    assert [blame.entity for blame in verdict(stage).blamed] == ["workload"]
    assert verdict(stage).act_on is None


def test_example_c_the_rank_missing_from_the_collective_names_its_node_as_a_hang():
    stage = training(nodes=8)
    stage.wait(60)
    for rank in range(8):
        if rank != 5:
            stage.rank("rank.collective", rank, group="tp", seq=8812, op="all_reduce", missing=[5])
    stage.sweep()
    found = verdict(stage)
    assert (found.klass, found.blamed[0].entity, found.confirmed) == ("hang", "node:n5", True)
    assert found.act_on is None


def test_example_d_an_end_on_request_is_a_consequence_and_the_cause_stays_unknown():
    stage = training()
    for rank in range(4):
        stage.rank("rank.exited", rank, exit_code=None, signal=15)
    stage.wait(2)
    found = verdict(stage)
    assert (found.blamed, found.act_on, found.root_cause) == ((), None, "unknown")


def test_the_class_nearest_to_the_cause_wins():
    classes = ["hang", "crash", "node_lost"]
    found = weigh(*(finding(klass) for klass in classes))
    assert found.klass == "node_lost"
    assert weigh(finding("hang"), finding("crash")).klass == "crash"


def test_a_confirmed_finding_leads_before_a_suspicion_of_a_nearer_class():
    assert weigh(finding("crash"), finding("node_lost", stage=Stage.SUSPECT)).klass == "crash"


@pytest.mark.parametrize(
    ("lines", "act_on"),
    [
        ([("node:a", 4.0, "x")], "a"),
        ([("node:a", 3.9, "x")], None),
        ([("node:a", 6.0, "x"), ("node:b", 4.0, "y")], "a"),
        ([("node:a", 6.0, "x"), ("node:b", 4.1, "y")], None),
        ([("rank:1", 8.0, "x")], None),
        ([("workload", 8.0, "x"), ("node:a", 4.0, "y")], None),
    ],
)
def test_a_node_is_acted_on_only_when_it_is_far_ahead(lines, act_on):
    assert weigh(finding("crash", *lines)).act_on == act_on


def test_a_suspicion_never_acts():
    assert weigh(finding("node_lost", ("node:a", 9.0, "x"), stage=Stage.SUSPECT)).act_on is None


def test_a_rank_is_no_rival_of_its_own_node():
    lines = [("node:a", 5.0, "x"), ("rank:3", 4.0, "y")]
    assert weigh(finding("crash", *lines)).act_on is None
    assert weigh(finding("crash", *lines, facts={"places": {"3": "a"}})).act_on == "a"


def test_the_same_line_told_by_two_findings_counts_once():
    line = ("node:a", 3.0, "gave no stack")
    assert weigh(finding("hang", line), finding("crash", line)).blamed[0].score == 3.0


def test_evidence_adds_up_over_findings():
    found = weigh(finding("hang", ("node:a", 3.0, "x")), finding("node_lost", ("node:a", 4.0, "y")))
    assert (found.blamed[0].score, found.blamed[0].margin, found.act_on) == (7.0, 7.0, "a")
    assert [line.text for line in found.evidence] == ["y", "x"]


def test_evidence_stamped_by_a_fast_clock_counts_without_its_time():
    found = weigh(finding("crash", ("node:a", 9.0, "x"), at=NOW + 60))
    assert found.act_on == "a"
    assert found.evidence[0].at == NOW
    assert found.evidence[0].bound_s is None


def test_a_cause_that_is_over_still_names_what_it_left_behind():
    over = finding("storage_stall", ("storage", 6.0, "x"), stage=Stage.CLEARED, facts={HELD_BEFORE: True, OVER_AT: NOW})
    found = weigh(over, finding("crash", ("workload", 6.0, "64 ranks raised OSError")))
    assert (found.klass, [blame.entity for blame in found.blamed]) == ("storage_stall", ["storage"])
    assert found.stands == {"crash"}


def test_what_cleared_counts_no_more_beside_what_stands():
    gone = finding("hang", ("node:a", 9.0, "x"), stage=Stage.CLEARED)
    assert weigh(gone, finding("crash")).blamed == ()
    assert weigh(gone).cleared_up


def test_the_fingerprint_names_the_kind_and_no_rank_node_or_time():
    prints = set()
    for rank in (1, 2):
        stage = training()
        stage.rank("rank.exited", rank, exit_code=None, signal=11)
        stage.wait(2)
        prints.add(verdict(stage).fingerprint)
    assert prints == {"crash:SIGSEGV"}


def test_what_compares_launches_keeps_the_fingerprint_of_how_the_newest_ended():
    crash = finding("crash", key="c", facts={"fingerprint": "SIGSEGV"})
    assert weigh(finding("crash_loop", key="l"), crash).fingerprint == "crash:SIGSEGV"


def test_the_verdict_carries_the_facts_of_all_and_the_leading_ones_win():
    loop = finding("crash_loop", facts={"launches": 3, "last_step": 5, "onset_step": 1001})
    found = weigh(finding("crash", facts={"last_step": 4, "dead": [2]}), loop)
    assert (found.facts["launches"], found.facts["last_step"], found.facts["dead"]) == (3, 5, [2])
    assert found.onset_step == 1001


@pytest.mark.parametrize(("modes", "mode"), [(("act", "act"), "act"), (("propose", "act"), "propose")])
def test_a_rule_that_may_only_propose_makes_the_verdict_a_proposal(modes, mode):
    fault = finding("gpu_fault", ("node:a", 6.0, "x"), key="g", mode=modes[0])
    assert weigh(fault, finding("crash", key="c", mode=modes[1])).mode == mode


def test_evidence_of_a_proposing_rule_against_the_condemned_node_binds_as_well():
    found = weigh(finding("crash", key="c"), finding("hang", ("node:a", 6.0, "x"), key="h", mode="propose"))
    assert (found.act_on, found.mode) == ("a", "propose")


def test_every_suspect_is_told_what_would_clear_it():
    found = weigh(finding("gpu_fault", ("node:n02", 6.0, "Xid 79")))
    assert found.clears["node:n02"].startswith("the same failure in an attempt without node n02")
