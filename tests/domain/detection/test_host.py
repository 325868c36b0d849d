import pytest

from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def training():
    stage = Stage(nodes=4)
    stage.launch()
    stage.train(1, 3, 2.0)
    return stage


def log(stage, node, text):
    stage.send("node.log", node=node, run=None, source="kernel", text=text, boot_id="b", gap=False)


def memory(stage):
    return [item for item in stage.log if item.klass == "host_memory"]


def verdict(stage):
    return diagnose(list({item.key: item for item in stage.log}.values()), now=stage.now, policy=stage.policy)


@pytest.mark.parametrize("line_first", [True, False])
def test_a_rank_that_the_kernel_killed_is_explained_and_its_node_spared(line_first):
    stage = training()
    line = "Out of memory: Killed process 4002 (python3) total-vm:410000000kB, anon-rss:400000000kB"
    if line_first:
        log(stage, "n2", line)
    stage.rank("rank.exited", 2, signal=9)
    stage.wait(1)
    if not line_first:
        log(stage, "n2", line)
    stage.wait(2)
    found = memory(stage)[-1]
    assert (found.stage, found.entity) == (Sure.CONFIRMED, "rank:2")
    assert found.sentence == "the kernel of n2 killed python3 of rank 2 because the machine ran out of memory"
    assert [blame.entity for blame in verdict(stage).blamed] == ["rank:2"]
    assert verdict(stage).act_on is None


def test_a_limit_of_memory_is_told_as_one():
    stage = training()
    log(stage, "n2", "Memory cgroup out of memory: Killed process 4002 (python3) total-vm:1kB")
    stage.rank("rank.exited", 2, signal=9)
    stage.sweep()
    assert memory(stage)[-1].sentence.endswith("because its memory limit was reached")


def test_a_rank_that_lost_its_worker_to_the_kernel_is_explained_too():
    stage = training()
    log(stage, "n2", "Out of memory: Killed process 9999 (python3) total-vm:1kB")
    error = {"type": "RuntimeError", "message": "DataLoader worker (pid 9999) is killed by signal: Killed."}
    stage.rank("rank.exited", 2, exit_code=1, error=error)
    stage.sweep()
    assert memory(stage)[-1].entity == "rank:2"


def test_a_program_that_is_none_of_ours_explains_nothing():
    stage = training()
    log(stage, "n2", "Out of memory: Killed process 9999 (chrome) total-vm:1kB")
    stage.rank("rank.exited", 1, signal=9)
    stage.wait(3)
    assert memory(stage) == []


def test_a_helper_that_the_kernel_killed_is_told_once_the_run_stops():
    stage = training()
    log(stage, "n2", "Out of memory: Killed process 77 (mmfsd) total-vm:1kB")
    stage.wait(2)
    assert memory(stage) == []
    stage.rank("rank.exited", 1, exit_code=1, error={"type": "OSError", "message": "[Errno 5] Input/output error"})
    stage.wait(2)
    assert memory(stage)[-1].sentence.startswith("the kernel of n2 killed mmfsd, on which others rely")
    assert memory(stage)[-1].evidence[0].weight == 0
    assert verdict(stage).act_on is None


def test_three_lines_about_one_kill_are_one_finding():
    stage = training()
    log(stage, "n2", "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=4002,uid=0")
    log(stage, "n2", "Out of memory: Killed process 4002 (python3) total-vm:1kB")
    log(stage, "n2", "python3 invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0")
    stage.rank("rank.exited", 2, signal=9)
    stage.wait(3)
    assert len({item.key for item in memory(stage)}) == 1


def test_a_memory_fault_beside_a_kill_for_want_of_memory_is_the_memory():
    stage = training()
    log(stage, "n2", "NVRM: Xid (PCI:0000:4c:00): 31, pid=4002, name=python3, MMU Fault")
    log(stage, "n2", "Out of memory: Killed process 4002 (python3) total-vm:1kB")
    stage.rank("rank.exited", 2, signal=9)
    stage.wait(3)
    assert verdict(stage).act_on is None
    assert memory(stage)[-1].stage == Sure.CONFIRMED
