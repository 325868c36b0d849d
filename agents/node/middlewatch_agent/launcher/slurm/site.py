"""What every part of the adapter works with: the owner's file, the tools, the picture, and what was written down."""

import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from middlewatch_agent.files import private_folder, read_text, write_private
from middlewatch_agent.launcher.config import LauncherConfig
from middlewatch_agent.launcher.records import AttemptRecord, Records
from middlewatch_agent.launcher.slurm import script
from middlewatch_agent.launcher.slurm.tools import Tools
from middlewatch_agent.launcher.slurm.view import Job
from middlewatch_agent.launcher.slurm.world import World

MAX_KEPT = 100
"""Scripts and outputs of jobs that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One launcher at one cluster. `identity` tells its jobs from those of another installation."""

    config: LauncherConfig
    identity: str
    jobs: Path
    orders: Path
    records: Records
    tools: Tools
    world: World

    @classmethod
    def at(cls, config: LauncherConfig, folder: Path) -> Self:
        """Work below `folder`."""
        tools = Tools(config.slurm)
        records = Records(folder / "attempts")
        return cls(
            config=config, identity=_identity(folder / "identity"), jobs=private_folder(folder / "jobs"),
            orders=private_folder(folder / "orders"), records=records, tools=tools,
            world=World(tools, config.slurm.poll_s),
        )  # fmt: skip

    def mark(self, run: str, attempt: int | None) -> str:
        """The comment of an attempt's job, or of a successor."""
        return script.mark(self.identity, run, attempt)

    def newest(self) -> list[AttemptRecord]:
        """The newest attempt of each run."""
        found = (self.records.newest(run) for run in self.config.runs)
        return [record for record in found if record]

    def job_of(self, record: AttemptRecord) -> Job | None:
        """The job of an attempt in the newest picture, also where its submission's answer was lost."""
        known, mark = self.world.jobs, self.mark(record.run, record.attempt)
        return known.get(record.job) or next((job for job in known.values() if job.comment == mark), None)

    def is_of(self, job: Job, run: str, attempt: int) -> bool:
        """Whether a job is this attempt, also one that a launcher submitted whose place this one has taken."""
        record = self.records.newest(run)
        known = record.job if record and record.attempt == attempt else ""
        return script.attempt_of(job.comment, run) == str(attempt) or (bool(known) and job.job_id == known)

    def submit(self, run: str, job: script.Job) -> str:
        """Write the script of a job and submit it. Raises UnknownError, ToolError or OSError."""
        path = self.jobs / f"{job.name}.sh"
        write_private(path, script.text(self.config.slurm, job, sys.executable))
        self._tidy()
        folder = self.config.run(run).folder or "."
        return self.tools.submit(script.options(self.config.slurm, job, folder, self.jobs / f"{job.name}.out"), path)

    def _tidy(self) -> None:
        by_age = sorted(self.jobs.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in by_age[:-MAX_KEPT]:
            path.unlink(missing_ok=True)


def _identity(path: Path) -> str:
    """A name that stays with the folder: who works in another one never takes our jobs for his."""
    known = read_text(path)
    if known is None:
        known = uuid.uuid4().hex[:8]
        write_private(path, known)
    return known
