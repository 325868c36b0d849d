"""What runs on the compute nodes in a job of ours, called by its batch script.

    python -m middlewatch_agent.launcher.slurm.task rank|wait|save

`rank` becomes the shim of the rank that stands in this place. `wait` is a successor
that waits for its order. `save` lays the kill switch of the attempt down on this node:
the time limit or a preemption is near, so the ranks save and end.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from middlewatch_agent.launcher import spawn
from middlewatch_agent.launcher.slurm import orders
from middlewatch_agent.launcher.slurm.script import ORDER

LOOK_S = 0.2
SAVE_FOR_S = 3600.0
NO_ORDER = 4
MAX_WAIT_S = 24 * 3600.0


def rank(environ: Mapping[str, str]) -> int:
    """Become the shim of this place's rank."""
    order = orders.decode(environ[ORDER])
    record, place = order.rank_of(environ["SLURMD_NODENAME"], int(environ["SLURM_LOCALID"]))
    started = spawn.order(order.config, record, place)
    os.chdir(started.folder)
    command = spawn.shim_command(started)
    os.execve(command[0], command, {key: value for key, value in started.environ.items() if key != ORDER})  # noqa: S606


def wait(environ: Mapping[str, str]) -> int:
    """Wait until the launcher says which attempt this is; it cancels a job that it has no use for."""
    path, until = Path(environ[ORDER]), time.monotonic() + MAX_WAIT_S
    while not path.exists():
        if time.monotonic() > until:
            return NO_ORDER
        time.sleep(LOOK_S)
    return 0


def save(environ: Mapping[str, str]) -> int:
    """Lay the kill switch down where the hooks of this node's ranks look."""
    from middlewatch_agent.hooks.switches import KILL, file_of  # noqa: PLC0415 - ranks do not need it and would wait

    order = orders.decode(environ[ORDER])
    folder = Path(order.nodes[environ["SLURMD_NODENAME"]].state_dir)
    path = file_of(folder, order.record.run, order.record.attempt, KILL)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}")
    scratch.write_text("the time limit is near")
    ends_at = time.time() + SAVE_FOR_S
    os.utime(scratch, (ends_at, ends_at))
    scratch.replace(path)
    return 0


PARTS: Mapping[str, Callable[[Mapping[str, str]], int]] = {"rank": rank, "wait": wait, "save": save}


if __name__ == "__main__":
    sys.exit(PARTS[sys.argv[1]](os.environ))
