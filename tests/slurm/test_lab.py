"""The Slurm that all other tests of this folder stand on."""

from controlplane.demo.slurm_lab import NODES, SlurmLab
from tests.agent.launcher.stage import wait_for


def test_it_starts_beside_another_and_leaves_nothing(lab, tmp_path):
    with SlurmLab(tmp_path) as second:
        assert second.states() == dict.fromkeys(NODES, "idle") == lab.states()
        second.tool("sbatch", "-o", "/dev/null", "--wrap", "srun sleep 60")
        wait_for(second.processes)
        assert lab.processes() == []
    wait_for(lambda: not second.processes())  # who was killed may not have been buried yet


def test_it_is_clean_again_whatever_was_done_to_it(lab):
    lab.tool("sbatch", "-o", "/dev/null", "-w", "n2", "--wrap", "srun sleep 60")
    wait_for(lambda: any(process.name() == "sleep" for process in lab.processes("n2")))
    lab.tool("scontrol", "update", "nodename=n3", "state=drain", "reason=by hand")
    lab.freeze("n2")
    lab.kill("n1")
    lab.clean()
    assert lab.states() == dict.fromkeys(NODES, "idle")
    assert lab.processes() == []
