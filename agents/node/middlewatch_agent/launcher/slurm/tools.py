"""Slurm's command-line tools, each call bounded in time and told apart: no, and nobody knows.

`squeue --json` exits with 0 and an empty list when no controller answers. Whoever takes
that for an empty queue restarts jobs that run: its `errors` are read first.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from middlewatch_agent.launcher.slurm import view
from middlewatch_agent.launcher.slurm.settings import SlurmConfig
from middlewatch_agent.launcher.slurm.view import Job, Maintenance, Node

MAX_OUTPUT = 256 << 20
MAX_WORDS = 400
KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d{1,6})", re.MULTILINE)
DEFAULT_KILL_WAIT_S = 30.0
UNREACHABLE = (
    "unable to contact", "connection refused", "timed out", "socket timed out", "zero bytes were transmitted",
    "communication connection failure", "slurmctld in standby", "unexpected message received",
)  # fmt: skip
"""What the tools say when the controller gave no answer, so that nobody knows what became of the request."""


class UnknownError(Exception):
    """The controller did not answer: nothing is known, also not whether it did what it was asked."""


class ToolError(Exception):
    """Slurm answered no; the message is its own."""


class Tools:
    """The tools of one cluster. May be called from several threads."""

    def __init__(self, config: SlurmConfig) -> None:
        """Use the tools and the cluster that `config` names."""
        self._config = config
        self._environ = {**os.environ, **({"SLURM_CONF": config.conf} if config.conf else {})}

    # looking

    def jobs(self) -> list[Job]:
        """Every job that the controller remembers. Raises UnknownError or ToolError."""
        answer = self._json("squeue", "--json")
        return [view.job_of(raw) for raw in answer.get("jobs") or ()]

    def nodes(self) -> list[Node]:
        """Every node. Raises UnknownError or ToolError."""
        lines = self._run("scontrol", "-o", "show", "node").splitlines()
        return [view.node_of(line) for line in lines if line.startswith("NodeName=")]

    def maintenances(self) -> list[Maintenance]:
        """Every announced maintenance. Raises UnknownError or ToolError."""
        lines = self._run("scontrol", "-o", "show", "reservation").splitlines()
        found = (view.maintenance_of(line) for line in lines if line.startswith("ReservationName="))
        return [one for one in found if one]

    def kill_wait_s(self) -> float:
        """How long Slurm itself waits between SIGTERM and SIGKILL. Raises UnknownError or ToolError."""
        found = KILL_WAIT.search(self._run("scontrol", "show", "config"))
        return float(found[1]) if found else DEFAULT_KILL_WAIT_S

    def cancelled_by(self, job_id: str) -> str:
        """Who cancelled a job, where Slurm keeps accounts; else nothing."""
        try:
            told = self._run("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "State%60")
        except (UnknownError, ToolError):
            return ""
        return told.partition(" by ")[2].split("\n")[0].strip()[: view.MAX_TEXT]

    # acting

    def submit(self, options: Sequence[str], script: Path) -> str:
        """Submit a batch job and give its id. Raises UnknownError or ToolError."""
        return self._run("sbatch", "--parsable", *options, str(script)).strip().partition(";")[0]

    def signal(self, job_id: str, name: str, *, batch: bool = False) -> None:
        """Signal the steps of a job, with `batch` its script as well."""
        self._run("scancel", "--signal", name, *(["--full"] if batch else []), job_id)

    def cancel(self, job_id: str) -> None:
        """Cancel a job, whatever it does."""
        self._run("scancel", job_id)

    def update_node(self, name: str, state: str, reason: str = "") -> None:
        """Set a node's state."""
        self._run("scontrol", "update", f"nodename={name}", f"state={state}", *([f"reason={reason}"] if reason else []))

    def update_job(self, job_id: str, **fields: str) -> None:
        """Change a job that waits."""
        self._run("scontrol", "update", f"jobid={job_id}", *(f"{key}={value}" for key, value in fields.items()))

    def hold(self, job_id: str) -> None:
        """Keep a job that waits from starting; its place and age stay."""
        self._run("scontrol", "uhold", job_id)

    def release(self, job_id: str) -> None:
        """Let a held job start."""
        self._run("scontrol", "release", job_id)

    # calling

    def _json(self, *command: str) -> dict[str, Any]:
        text = self._run(*command)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise UnknownError(f"{command[0]} printed no JSON: {text[:MAX_WORDS]!r}") from error
        if not isinstance(answer, dict) or answer.get("errors"):
            raise UnknownError(f"{command[0]} got no answer from the controller")
        return answer

    def _run(self, name: str, *arguments: str) -> str:
        command = [self._path(name), *arguments]
        limit = self._config.tool_s
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, errors="replace", timeout=limit,
                env=self._environ, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UnknownError(f"{name} gave no answer within {limit:.0f} s") from error
        except OSError as error:
            raise ToolError(f"{name} cannot be started: {error.strerror}") from error
        if done.returncode:
            words = done.stderr.strip()[:MAX_WORDS] or f"{name} ended {done.returncode}"
            raise UnknownError(words) if _is_unreachable(words) else ToolError(words)
        return done.stdout[:MAX_OUTPUT]

    def _path(self, name: str) -> str:
        if self._config.bin_dir:
            return str(Path(self._config.bin_dir) / name)
        return shutil.which(name) or name


def _is_unreachable(words: str) -> bool:
    return any(sign in words.lower() for sign in UNREACHABLE)
