"""The batch job of an attempt: its script and the options of its submission. Pure.

`srun` is told not to end all ranks with the first (the evidence of the others would be
lost, and the control plane ends them within seconds), and to end them after a while
nevertheless, should nobody else do it. Slurm is told never to requeue the job.
"""

import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from middlewatch_agent.launcher.slurm import view
from middlewatch_agent.launcher.slurm.settings import SlurmConfig

MARK = "middlewatch"
NEXT = "next"
ORDER = "MIDDLEWATCH_ORDER"
"""Holds the order of an attempt in its batch job: `orders.Order` as JSON, or the path of the file to come."""
TASK = "middlewatch_agent.launcher.slurm.task"

TEXT = """\
#!/bin/sh
# Written by Middlewatch: {what}. It is written anew for each job; changes are lost.
export {order}={value}
asked=no
save() {{ asked=yes; srun --overlap --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 {task} save & }}
trap save USR1
trap : TERM
{wait}srun --nodes={nodes} --ntasks-per-node={per_node} --kill-on-bad-exit=0 --wait={wait_s} {task} rank &
ranks=$!
while kill -0 $ranks 2>/dev/null; do
    wait $ranks
    code=$?
done
[ $code = {saved} ] && code=1
[ $asked = yes ] && [ $code = 0 ] && code={saved}
exit $code
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a submission is made of. `wanted` are the exact nodes; without them Slurm chooses `count`."""

    mark: str
    name: str
    count: int
    ranks_per_node: int
    order: str
    wanted: Sequence[str] = ()
    exclude: Sequence[str] = ()
    after: Sequence[str] = ()
    waits: bool = False
    """Whether `order` is the folder in which the launcher lays the job's order down once it has begun."""


def mark(launcher: str, run: str, attempt: int | None) -> str:
    """The comment by which a job is found again; a successor has no attempt yet."""
    return f"{MARK}:{launcher}:{run}:{NEXT if attempt is None else attempt}"


def attempt_of(comment: str, run: str) -> str:
    """The attempt of a run that a job with this comment is, whichever launcher submitted it; nothing for others."""
    told = comment.split(":")
    ours = len(told) == len(("mark", "launcher", "run", "attempt")) and told[0] == MARK and told[2] == run
    return told[3] if ours and told[3].isdigit() else ""


def options(config: SlurmConfig, job: Job, folder: str, output: Path) -> list[str]:
    """The options of sbatch."""
    chosen = {
        "job-name": job.name,
        "comment": job.mark,
        "nodes": str(job.count),
        "ntasks-per-node": str(job.ranks_per_node),
        "chdir": folder,
        "output": str(output),
        "open-mode": "append",
        "nodelist": ",".join(job.wanted),
        "exclude": ",".join(name for name in job.exclude if name not in job.wanted),
        "partition": config.partition or "",
        "dependency": f"afterany:{':'.join(job.after)}" if job.after else "",
        "signal": f"B:USR1@{config.save_s}" if config.save_s else "",
    }
    given = [f"--{key}={value}" if value else f"--{key}" for key, value in config.options.items()]
    return ["--no-requeue", *(f"--{key}={value}" for key, value in chosen.items() if value), *given]


def text(config: SlurmConfig, job: Job, python: str) -> str:
    """The batch script."""
    task = f"{shlex.quote(config.python or python)} -m {TASK}"
    return TEXT.format(
        what=job.mark,
        order=ORDER,
        value=shlex.quote(job.order) + ('"/$SLURM_JOB_ID.json"' if job.waits else ""),
        wait=f"{task} wait || exit $?\n" if job.waits else "",
        nodes=job.count,
        per_node=job.ranks_per_node,
        wait_s=config.wait_s,
        task=task,
        saved=view.SAVED,
    )


def port(config: SlurmConfig, mark: str) -> int:
    """The port of rank 0: spread by the attempt's name, since nobody can look from here which one is free there."""
    first, last = config.ports
    return first + zlib.crc32(mark.encode()) % max(1, last - first + 1)
