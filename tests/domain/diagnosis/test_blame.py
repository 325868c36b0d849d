"""Who stands out, who is acted on, and what the answer is: methods 7, examples (a) to (f)."""

from dataclasses import replace

import pytest

from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.diagnosis.weigh import History
from controlplane.domain.findings import Evidence, Stage
from tests.domain.diagnosis.test_diagnose import NOW, POLICY, finding, weigh

ALL = range(64)


def found(klass, *told, at=NOW, bound_s=None, **words):
    """Make a finding; `told` are entity, weight and kind of each line of evidence."""
    lines = [
        Evidence(at=at, entity=entity, weight=weight, text=f"{entity} {kind}", kind=kind, bound_s=bound_s)
        for entity, weight, kind in told
    ]
    return replace(finding(klass, **words), evidence=tuple(lines))


def blamed(*findings):
    return [blame.entity for blame in weigh(*findings).blamed]


def test_example_a_a_fast_clock_does_not_save_the_node_of_the_broken_gpu():
    fault = found("gpu_fault", ("node:n04", 6.0, "xid 79"), at=NOW - 580, key="g")
    crash = found("crash", *((f"rank:{number}", -1.0, "time-out") for number in ALL if number != 17), key="c")
    verdict = weigh(fault, crash)
    assert (verdict.klass, verdict.act_on, verdict.answer) == ("gpu_fault", "n04", "node")
    assert blamed(fault, crash) == ["node:n04"]
    assert len(verdict.cleared) == 63


def test_example_b_what_every_rank_raises_is_the_workloads():
    ranks = [(f"rank:{number}", 4.0, "AssertionError") for number in ALL]
    verdict = weigh(found("crash", ("workload", 4.0, "all"), *ranks))
    assert ([item.entity for item in verdict.blamed], verdict.act_on, verdict.answer) == (
        ["workload"], None, "workload",
    )  # fmt: skip


def test_example_c_the_node_of_the_rank_that_is_missing_is_suspected_and_not_excluded():
    verdict = weigh(found("hang", ("node:n1", 3.5, "absent"), *((f"rank:{n}", -1.0, "waits") for n in ALL if n != 5)))
    assert (verdict.blamed[0].entity, verdict.act_on, verdict.exclude) == ("node:n1", None, ())


def test_example_d_an_end_on_request_leaves_the_cause_unknown():
    told = [(f"gpu:{number}", -2.0, "xid 45") for number in range(8)] + [(f"rank:{n}", -3.0, "SIGTERM") for n in ALL]
    verdict = weigh(found("crash", *told))
    assert (verdict.blamed, verdict.answer, verdict.root_cause) == ((), "unknown", "unknown")


def test_example_e_an_out_of_memory_kill_explains_the_rank_and_condemns_no_node():
    memory = found("host_memory", ("rank:3", 5.0, "oom"), ("node:n0", 1.0, "xid 31"), key="m", entity="rank:3")
    verdict = weigh(memory, found("crash", ("rank:3", 3.0, "SIGKILL"), key="c", facts={"places": {"3": "n0"}}))
    assert (verdict.klass, verdict.blamed[0].entity, verdict.act_on) == ("host_memory", "rank:3", None)


def test_example_f_a_storage_that_does_not_answer_takes_all_blame():
    storage = found("storage_stall", ("storage", 4.0, "probe"), key="s", entity="storage")
    told = [(f"rank:{number}", 4.0, "OSError") for number in ALL]
    crash = found("crash", ("workload", 6.0, "all"), ("node:n3", 6.0, "xid 79"), *told, key="c")
    verdict = weigh(storage, crash)
    assert (verdict.klass, verdict.act_on, verdict.answer) == ("storage_stall", None, "storage")
    assert blamed(storage, crash) == ["storage"]
    assert verdict.root_cause == "the storage"


def test_a_segmentation_fault_is_the_workloads_and_no_nodes():
    verdict = weigh(found("crash", ("rank:21", 4.0, "SIGSEGV"), facts={"places": {"21": "n05"}}))
    assert ([item.entity for item in verdict.blamed], verdict.answer) == (["rank:21"], "workload")
    assert (verdict.act_on, verdict.exclude) == (None, ())


def test_a_contained_error_beside_a_crash_names_the_machine_and_does_not_condemn_it():
    told = [("node:n05", 1.0, "xid 13"), ("rank:21", 4.0, "RuntimeError")]
    verdict = weigh(found("crash", *told, facts={"places": {"21": "n05"}}))
    assert (verdict.answer, verdict.act_on) == ("node", None)


def test_a_killed_rank_alone_is_unknown():
    assert weigh(found("crash", ("rank:2", 3.0, "SIGKILL"))).answer == "unknown"


def test_a_gpu_is_a_place_of_its_node():
    told = [("gpu:GPU-1", 6.0, "xid 79"), ("rank:3", 4.0, "RuntimeError")]
    verdict = weigh(found("gpu_fault", *told, facts={"places": {"3": "n1"}, "gpus": {"GPU-1": "n1"}}))
    assert (verdict.act_on, verdict.answer) == ("n1", "gpu")
    assert weigh(found("gpu_fault", *told, facts={"places": {"3": "n1"}})).act_on is None


def test_different_ranks_with_the_same_error_name_none_of_them():
    crashes = [
        found("crash", (f"rank:{rank}", 4.0, "RuntimeError"), key=f"c{rank}", attempt=rank) for rank in range(1, 7)
    ]
    assert blamed(found("crash_loop", key="loop"), *crashes) == []


def test_equal_scores_are_ordered_from_hardware_to_the_process():
    told = [("rank:7", 4.0, "a"), ("node:n2", 4.0, "xid 79"), ("node:n3", 4.0, "silent")]
    assert blamed(found("crash", *told)) == ["node:n2"]


def test_who_is_only_second_is_an_alternative():
    verdict = weigh(found("crash", ("node:a", 6.0, "x"), ("node:b", 3.0, "y")))
    assert ([item.entity for item in verdict.blamed], [item.entity for item in verdict.alternatives]) == (
        ["node:a"], ["node:b"],
    )  # fmt: skip


def test_a_lost_group_blames_what_its_nodes_share_and_leaves_all_of_them_out():
    nodes = [f"n{number}" for number in range(24, 29)]
    told = [("domain:r3", 5.0, "gone"), *((f"node:{name}", 5.0, "down") for name in nodes)]
    verdict = weigh(found("correlated_loss", *told, entity="domain:r3", facts={"nodes": nodes}))
    assert ([item.entity for item in verdict.blamed], verdict.act_on) == (["domain:r3"], None)
    assert verdict.exclude == tuple(nodes)


def test_two_nodes_lost_alone_are_both_left_out():
    lost = [
        found("node_lost", (f"node:{name}", 5.0, "down"), (f"node:{name}", 4.0, "silent"), key=name,
              entity=f"node:{name}") for name in ("n1", "n2")
    ]  # fmt: skip
    verdict = weigh(*lost)
    assert (verdict.act_on, verdict.exclude) == (None, ("n1", "n2"))
    assert blamed(*lost) == ["node:n1", "node:n2"]


def test_company_alone_blames_and_never_acts():
    history = History(company={"node:a": 3.0})
    verdict = diagnose([found("crash")], now=NOW, policy=POLICY, history=history)
    assert ([item.entity for item in verdict.blamed], verdict.act_on) == (["node:a"], None)


def test_a_poisoned_checkpoint_is_blamed_and_its_victims_nodes_are_not():
    poison = found("checkpoint_poison", ("checkpoint:300", 5.0, "twice"), key="p", entity="checkpoint:300")
    verdict = weigh(poison, found("crash", ("rank:41", 4.0, "IndexError"), key="c"))
    assert (verdict.blamed[0].entity, verdict.answer, verdict.act_on) == ("checkpoint:300", "data", None)


@pytest.mark.parametrize("klass", ["storage_stall", "correlated_loss", "workload_error", "checkpoint_poison"])
def test_some_causes_are_never_a_node(klass):
    assert weigh(found(klass, ("node:a", 9.0, "x"))).act_on is None


def test_a_suspected_group_loss_suspends_no_blame_yet():
    told = found("correlated_loss", ("node:a", 5.0, "down"), stage=Stage.SUSPECT, key="g")
    assert blamed(told) == ["node:a"]
