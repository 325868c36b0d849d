"""A launcher that is killed with SIGKILL while its ranks live."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.launcher.stage import wait_for

REPOSITORY = Path(__file__).parents[3]
PROGRAM = """
import sys, time
from pathlib import Path
from middlewatch_agent.launcher import config
from middlewatch_agent.launcher.base import StartRequest
from middlewatch_agent.launcher.local import LocalLauncher
folder = Path(sys.argv[1])
launcher = LocalLauncher(config.load(folder / "launcher.toml"), folder / "head" / "launcher")
launcher.start(StartRequest(run="demo", attempt=1, nodes=("n01", "n02"), resume_step=0), now_ms=time.time_ns() // 10**6)
print("started", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("preload", [(), ("wave",)])
def test_its_ranks_live_on_and_the_next_launcher_takes_them_up(cluster, preload):
    cluster.configure(cluster.program.read_text(), preload=preload)
    command = [sys.executable, "-c", PROGRAM, str(cluster.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, start_new_session=True) as launcher:
        assert launcher.stdout.readline() == b"started\n"
        pids = {cluster.pid(0), cluster.pid(1)}
        launcher.send_signal(signal.SIGKILL)
    cluster.open()
    assert {process.pid for process in wait_for(cluster.living)} == pids
    assert cluster.start(2).state == "refused"
    cluster.service.tell()
    assert [event["kind"] for event in cluster.context.events] == ["attempt.started"]
    assert cluster.stop(1).state == "succeeded"
    assert cluster.exited()["data"]["reason"] == "killed"
