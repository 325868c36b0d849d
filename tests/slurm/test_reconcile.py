"""What the reconciliation asks of a real Slurm, and what it hears of it."""

from tests.agent.launcher.stage import wait_for


def test_a_node_that_slurm_drained_over_a_step_comes_back_and_one_that_a_person_drained_does_not(lab, site):
    for node, reason in (("n1", "Kill task failed"), ("n2", "bad fan")):
        lab.tool("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")
    assert site.launcher.resume(["n1", "n2"]) == {"resumed": ["n1"], "left": {"n2": "drained by root: bad fan"}}
    wait_for(lambda: lab.states()["n1"] == "idle")
    assert lab.states()["n2"] == "drain"
