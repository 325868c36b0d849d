"""Let frozen processes go on after a while, as a program of its own: it outlives the agent that froze them.

python -m middlewatch_agent.thawing SECONDS PID:START_TICKS…

A drill usually ends with the frozen rank killed: then nobody is left to thaw, and the program ends too.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from middlewatch_agent.launcher.processes import alive, signal_process
from middlewatch_agent.ranks.procfs import Process

LOOK_S = 1.0


def begin(found: Sequence[Process], after_s: float) -> None:
    """Start the program; it does its work whatever becomes of us. Raises OSError where it cannot start."""
    named = [f"{process.pid}:{process.start_ticks}" for process in found]
    subprocess.Popen(
        [sys.executable, "-m", __name__, str(after_s), *named], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Wait, as long as one of the processes lives, then tell each to go on."""
    until = time.monotonic() + float(arguments[0])
    frozen = [(int(pid), int(ticks)) for pid, _, ticks in (named.partition(":") for named in arguments[1:])]
    while (left := until - time.monotonic()) > 0 and any(alive(pid, ticks) for pid, ticks in frozen):
        time.sleep(min(left, LOOK_S))
    for pid, ticks in frozen:
        signal_process(pid, ticks, signal.SIGCONT)


if __name__ == "__main__":
    main(sys.argv[1:])
