"""Let frozen processes go on after a while, as a program of its own: it outlives the agent that froze them.

python -m middlewatch_agent.thawing SECONDS PID:START_TICKS…
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from middlewatch_agent.launcher.processes import signal_process
from middlewatch_agent.ranks.procfs import Process


def begin(found: Sequence[Process], after_s: float) -> None:
    """Start the program; it does its work whatever becomes of us. Raises OSError where it cannot start."""
    named = [f"{process.pid}:{process.start_ticks}" for process in found]
    subprocess.Popen(
        [sys.executable, "-m", __name__, str(after_s), *named], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Wait, then tell each process to go on."""
    time.sleep(float(arguments[0]))
    for named in arguments[1:]:
        pid, _, ticks = named.partition(":")
        signal_process(int(pid), int(ticks), signal.SIGCONT)


if __name__ == "__main__":
    main(sys.argv[1:])
