"""Stops of a Slurm launcher beside other commands, without a Slurm: each command has a thread of its own."""

from dataclasses import replace

import pytest
from middlewatch_agent.launcher import config
from middlewatch_agent.launcher.base import StartRequest
from middlewatch_agent.launcher.slurm.launcher import SlurmLauncher
from middlewatch_agent.launcher.slurm.view import Job, Node

TOML = """
scheduler = "slurm"
[slurm]
[runs.demo]
command = ["python", "train.py"]
checkpoint_dir = "ck"
[nodes.n01]
state_dir = "n01"
"""
REQUEST = StartRequest(run="demo", attempt=1, nodes=("n01",), resume_step=0)


class StandInSlurm:
    """Runs a job from its submission until it is cancelled; `meanwhile` happens while its queue is read."""

    def __init__(self):
        self.known: dict[str, Job] = {}
        self.meanwhile = lambda: None

    def jobs(self):
        seen, meanwhile, self.meanwhile = list(self.known.values()), self.meanwhile, lambda: None
        meanwhile()
        return seen

    def nodes(self):
        return [Node(name="n01", state="idle")]

    def submit(self, options, _script):
        comment = next(option.removeprefix("--comment=") for option in options if option.startswith("--comment="))
        self.known["7"] = Job(job_id="7", state="RUNNING", comment=comment, nodes=("n01",))
        return "7"

    def signal(self, job_id, name, *, batch=False):
        pass

    def cancel(self, job_id):
        self.known[job_id] = replace(self.known[job_id], state="CANCELLED")


@pytest.fixture
def slurm():
    return StandInSlurm()


@pytest.fixture
def launcher(tmp_path, slurm):
    (tmp_path / "launcher.toml").write_text(TOML)
    made = SlurmLauncher(config.load(tmp_path / "launcher.toml"), tmp_path / "launcher")
    for name in ("jobs", "nodes", "submit", "signal", "cancel"):
        setattr(made._site.tools, name, getattr(slurm, name))
    return made


def test_a_stop_ends_the_job_that_is_there(launcher, slurm):
    launcher.start(REQUEST, now_ms=0)
    assert launcher.stop("demo", 1, grace_s=0.0).survivors == ()
    assert slurm.known["7"].state == "CANCELLED"


def test_a_stop_ends_the_job_that_a_start_submitted_while_it_read_the_queue(launcher, slurm):
    slurm.meanwhile = lambda: launcher.start(REQUEST, now_ms=0)
    launcher.stop("demo", 1, grace_s=0.0)
    assert slurm.known["7"].state == "CANCELLED"
