"""How fast a run comes back from kill -9 under a real Slurm, beside a bare loop that submits the same job again.

    python bench/slurm.py [--times 3]

Both are measured in one run, on the same job and machine, each on a Slurm of four nodes of its own. The
bare loop looks for the end of its job five times a second, submits it again at once and chooses nothing;
its ranks, like Middlewatch's under Slurm, import torch anew. Counted is from the kill to the first step
that the new ranks make. Both tell when the last of the old ranks had ended, when the new job went to Slurm and when
its ranks were there, so that it is seen where Middlewatch's own time goes.
"""

import argparse
import io
import json
import os
import shlex
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import relaunch  # noqa: E402
from recovery import Recovery, parts, recover  # noqa: E402

from controlplane.demo import slurm_lab  # noqa: E402
from controlplane.demo.cluster import HEAD, TRAINER  # noqa: E402
from controlplane.demo.narrator import Narrator  # noqa: E402
from controlplane.demo.site import SLURM  # noqa: E402
from controlplane.demo.slurm_lab import SlurmLab  # noqa: E402
from controlplane.demo.world import RUN, World  # noqa: E402

ALLOWED_EXTRA_S = 3.0
ENDED, SUBMITTED, STARTED, STEP = "old job ended", "new job submitted", "ranks started", "first step"
Came = Mapping[str, float]
"""When each of these came, in seconds from the kill."""
RANKS = SLURM.training
VICTIM = 1
LOOK_S = 0.2
SCRIPT = """\
#!/bin/sh
export WORLD_SIZE={ranks} MASTER_ADDR=127.0.0.1 MASTER_PORT={port} LOCAL_RANK=0 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
export MIDDLEWATCH_RUN=bare MIDDLEWATCH_SOCKET={folder}/agent.sock MIDDLEWATCH_CHECKPOINT_DIR={folder}/checkpoints
exec srun --nodes={ranks} --ntasks-per-node=1 --kill-on-bad-exit=1 sh -c 'RANK=$SLURM_PROCID exec "$@"' rank {command}
"""


class BatchJob(relaunch.Job):
    """The same job as a plain batch job; `relaunch.Job` hears its steps."""

    def __init__(self, lab: SlurmLab, folder: Path) -> None:
        """Put checkpoints, logs and the socket into `folder`."""
        super().__init__(TRAINER, RANKS, folder)
        self._lab = lab
        self._job = ""

    def start(self) -> None:
        """Submit it as whoever keeps a job alive by hand does."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        text = SCRIPT.format(ranks=RANKS, port=port, folder=self._folder, command=shlex.join(TRAINER))
        path = self._folder / "job.sh"
        path.write_text(text)
        options = ("--parsable", f"--nodes={RANKS}", "--ntasks-per-node=1", f"--output={self._folder}/job.log")
        self._job = self._lab.tool("sbatch", *options, str(path)).strip()

    def process(self, rank: int) -> psutil.Process:
        """Find the process of a rank."""
        return next(one for one in self._lab.processes() if _is_rank(one, rank))

    def ended(self) -> bool:
        """Say whether Slurm is through with the job."""
        return not self._lab.tool("squeue", "-h", "-j", self._job, "-t", "PD,R,CG", "-o", "%i", check=False).strip()

    def kill(self) -> None:
        """Cancel what is left."""
        self._lab.tool("scancel", self._job, check=False)


def _is_rank(process: psutil.Process, rank: int) -> bool:
    try:
        return process.environ().get("RANK") == str(rank) and TRAINER[1] in process.cmdline()
    except psutil.Error:
        return False


def bare(lab: SlurmLab) -> Came:
    """Kill a rank of a plain batch job, submit the job again when it has ended, and time the first step."""
    with tempfile.TemporaryDirectory(prefix="mw-sbatch-") as place:
        job = BatchJob(lab, Path(place))
        try:
            job.start()
            job.step(relaunch.STEPS_BEFORE)
            os.kill(job.process(VICTIM).pid, signal.SIGKILL)
            killed = time.time()
            while not job.ended():
                time.sleep(LOOK_S)
            job.forget()
            came = {ENDED: time.time() - killed}
            job.start()
            came[SUBMITTED] = time.time() - killed
            job.step()
            came[STEP] = time.time() - killed
            return came | {STARTED: max(job.process(rank).create_time() for rank in range(RANKS)) - killed}
        finally:
            job.kill()
            lab.clean()


def bare_loop(times: int) -> list[Came]:
    """Measure the bare loop several times on one Slurm."""
    with tempfile.TemporaryDirectory(prefix="mw-lab-") as place, SlurmLab(Path(place)) as lab:
        return [bare(lab) for _ in range(times)]


def recovered(opened: World) -> tuple[Recovery, Came]:
    """Kill a rank of the run and time what follows."""
    row = recover(opened, VICTIM)
    number = opened.client.get(f"/runs/{RUN}/attempts?limit=1")["items"][0]["number"]
    old, new = statuses(opened, number - 1), statuses(opened, number)
    killed = old[VICTIM]["exited_at_ms"] / 1000
    job = opened.cluster.state(HEAD) / "launcher" / "jobs" / f"{RUN}.{number}.sh"
    return row, {
        ENDED: max(one["exited_at_ms"] for one in old.values()) / 1000 - killed,
        SUBMITTED: job.stat().st_mtime - killed,
        STARTED: max(one["started_at_ms"] for one in new.values()) / 1000 - killed,
        STEP: row.first_step_s,
    }


def statuses(opened: World, attempt: int) -> dict[int, dict[str, int]]:
    """Read what the shims of an attempt's ranks have written, by rank."""
    folders = (opened.cluster.state(node) / "ranks" for node in opened.cluster.names)
    found = (json.loads(path.read_text()) for folder in folders for path in folder.glob(f"{RUN}.{attempt}.*.json"))
    return {one["rank"]: one for one in found}


def middlewatch(times: int) -> list[tuple[Recovery, Came]]:
    """Measure Middlewatch several times in one world."""
    home = Path(tempfile.mkdtemp(prefix="mw-bench-"))
    with World.opened(home, Narrator(io.StringIO()), site=SLURM) as opened:
        opened.story().first_steps()
        return [recovered(opened) for _ in range(times)]


def told(rows: Sequence[Came]) -> str:
    """Say when each thing came, by its median."""
    return ", ".join(
        f"{name} {statistics.median(row[name] for row in rows):.2f}" for name in (ENDED, SUBMITTED, STARTED)
    )


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    if slurm_lab.missing():
        print(f"Slurm is not installed, so nothing was measured: apt-get install {slurm_lab.PACKAGES}")
        return 0
    theirs, found = bare_loop(times), middlewatch(times)
    loop, ours = (statistics.median(row[STEP] for row in rows) for rows in (theirs, [came for _, came in found]))
    print(f"{times} times, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    print(f"bare sbatch loop: kill -9 to first step {loop:6.2f} s (median)")
    print(f"                  {told(theirs)}")
    print(
        f"Middlewatch     : kill -9 to first step {ours:6.2f} s, {ours - loop:+.2f} s to bare "
        f"(allowed +{ALLOWED_EXTRA_S:g})"
    )
    print(f"                  {told([came for _, came in found])}")
    print(f"                  {parts([row for row, _ in found])}")
    return int(ours - loop > ALLOWED_EXTRA_S)


if __name__ == "__main__":
    sys.exit(main())
