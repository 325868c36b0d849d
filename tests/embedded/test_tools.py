"""Programs that end by themselves are ended with their children when somebody does not wait for them."""

import os
import signal
import threading

import psutil
import pytest

from controlplane.embedded import tools
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.interrupts import interruptible


def test_what_a_program_said_at_its_end_is_why_it_failed():
    with pytest.raises(CannotStart, match="sh failed: no room"):
        tools.run(["/bin/sh", "-c", "echo no room >&2; exit 3"], None)


def test_a_program_that_is_interrupted_leaves_no_child_behind(tmp_path):
    pids = tmp_path / "pids"
    os.mkfifo(pids)

    def interrupt():
        pids.read_text()  # the children are there
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    script = f"sleep 60 & echo $! > {tmp_path}/child; echo > {pids}; wait"
    with pytest.raises(KeyboardInterrupt), interruptible():
        tools.run(["/bin/sh", "-c", script], None)
    child = int((tmp_path / "child").read_text())
    gone = not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert gone
