"""The adapter itself: see `base.Launcher` and `base.Queue` for the meaning of each call."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from middlewatch_agent.launcher import plan, processes, repeats, scanning
from middlewatch_agent.launcher.base import Notice, Report, Started, StartError, StartRequest, Stopped
from middlewatch_agent.launcher.config import LauncherConfig
from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm import ends, nodes, starting, states
from middlewatch_agent.launcher.slurm.site import Site
from middlewatch_agent.launcher.slurm.stopping import Stopper
from middlewatch_agent.launcher.slurm.successors import Wishes
from middlewatch_agent.launcher.slurm.tools import ToolError, UnknownError
from middlewatch_agent.launcher.slurm.view import PENDING, Job
from middlewatch_agent.launcher.slurm.waiting import Waiting

RESUME_START_MS = 30_000
"""A start that was cut short by the agent's death is finished within this age, else given up."""


class SlurmLauncher:
    """Attempts as batch jobs. What changes records or submits holds the lock; looking at Slurm does not."""

    scheduler = "slurm"

    def __init__(self, config: LauncherConfig, folder: Path) -> None:
        """Keep attempt files, scripts, outputs and orders in `folder`; compute nodes must see it for successors."""
        self._site = Site.at(config, folder)
        self._stopper = Stopper(self._site.tools, config.slurm.fence_s, config.slurm.fence_most)
        self._waiting = Waiting(self._site, Wishes(folder / "wishes"))
        self._teller = states.Teller()
        self._cancelled_by: dict[str, str] = {}
        self._lock = threading.RLock()

    # attempts

    def start(self, request: StartRequest, *, now_ms: int) -> Started:
        """Start an attempt, once however often it is asked."""
        with self._lock:
            newest = self._site.records.newest(request.run)
            record = repeats.forestalled(newest, request) or repeats.again(newest, request)
            if record is None or record.state == "starting":
                record = self._begin(record, request, now_ms=now_ms)
            elsewhere = tuple(record.nodes) if record.nodes != list(request.nodes) else ()
            return Started(job_id=record.job_id, world_size=record.world_size, nodes=elsewhere)

    def _begin(self, record: AttemptRecord | None, request: StartRequest, *, now_ms: int) -> AttemptRecord:
        """Submit an attempt; `record` is what an earlier try has left of it."""
        starting.known(self._site.world.renew)
        try:
            record = record or self._new(request, now_ms=now_ms)
            self._submit(record)
        finally:
            self._site.world.hurry()
        return record

    def _new(self, request: StartRequest, *, now_ms: int) -> AttemptRecord:
        excluded = self._waiting.excluded(request.run)
        record = starting.lay_out(self._site, request, excluded, now_ms=now_ms)
        starting.known(lambda: self._waiting.make_way(request.run))
        self._site.records.save(record)
        return record

    def _submit(self, record: AttemptRecord) -> None:
        starting.submit(self._site, record)
        self._waiting.follow(record.run)

    def stop(self, run: str, attempt: int, *, grace_s: float | None) -> Stopped:
        """Ask, then force every process of an attempt to end, fence the nodes that cannot tell, and prove the rest."""
        grace = self._site.config.run(run).grace_s if grace_s is None else grace_s
        try:
            survivors, fenced = self._end(run, attempt, grace)
        except (UnknownError, ToolError) as error:
            self._site.world.hurry()
            raise StartError(f"nobody knows whether attempt {attempt} of run {run} has ended: {error}") from error
        return Stopped(survivors=tuple(process.describe() for process in survivors), fenced=tuple(fenced))

    def _end(self, run: str, attempt: int, grace_s: float) -> tuple[list[processes.RankProcess], list[str]]:
        """End an attempt; give what lives on, and the nodes that could not tell."""
        tools, world = self._site.tools, self._site.world
        why = f"fenced: attempt {attempt} of run {run} could not be ended here"
        seen: list[Job] = []
        try:
            seen = tools.jobs()
        finally:  # what we mean counts, whether Slurm answers or not
            with self._lock:
                record = self._ask_to_stop(run, attempt, seen)
        if record and record.job not in {job.job_id for job in seen}:  # a start may have submitted it since
            seen = tools.jobs()
        fenced = self._stopper.end(seen, lambda job: self._site.is_of(job, run, attempt), grace_s, why)
        world.renew()
        used = record.nodes if record else []
        fenced += nodes.fence_lost(tools, world.nodes, {*used} - {*fenced}, why)
        survivors = self._end_here(run, attempt)
        if fenced:
            fenced = self._give_back(fenced, {process.node for process in survivors}, why)
            world.hurry()
        return survivors, fenced

    def _end_here(self, run: str, attempt: int) -> list[processes.RankProcess]:
        """End what Slurm has lost sight of, where this machine is the node."""
        sockets = plan.sockets(self._site.config)
        return processes.end(lambda: processes.of_run(run, sockets, attempt), 0.0)

    def _give_back(self, fenced: list[str], inhabited: set[str], why: str) -> list[str]:
        tools = self._site.tools
        empty = [name for name in nodes.of_this_host(tools, fenced) if name not in inhabited]
        kept = nodes.give_back(tools, empty, why)
        return [name for name in fenced if name in kept or name not in empty]

    def _ask_to_stop(self, run: str, attempt: int, seen: Sequence[Job]) -> AttemptRecord | None:
        """Write the intent down, hold what waits among the jobs `seen`, and give the attempt where it was begun."""
        record = self._site.records.newest(run)
        if record is None or (record.attempt < attempt and record.exited_told):
            self._site.records.save(repeats.never_started(run, attempt))
        if record is None or record.attempt != attempt:
            return None
        if record.state != "ended" and not self._is_over(record):
            record.stop_asked = True
            self._site.records.note(record)
            self._waiting.pause(run, {job.job_id: job for job in seen})
        return record

    def _is_over(self, record: AttemptRecord) -> bool:
        job = self._site.job_of(record)
        return record.state == "running" and job is not None and not job.active

    def scan(self, run: str, newest: int) -> Sequence[dict[str, Any]]:
        """Judge the newest checkpoints. Raises StartError where it fails."""
        record = self._site.records.newest(run)
        job = self._site.job_of(record) if record else None
        return scanning.scan(self._site.config, run, newest, live=job is not None and job.active)

    def take_up(self, *, now_ms: int) -> None:
        """Finish starts that were cut short; an old one is given up, and its job cancelled where there is one."""
        self._site.world.look(now_ms)
        with self._lock:
            for record in self._site.newest():
                self._finish_start(record, now_ms)

    def _finish_start(self, record: AttemptRecord, now_ms: int) -> None:
        """Submit what an earlier life could not, as soon as Slurm answers."""
        if record.state != "starting":
            return
        young = now_ms - record.started_at_ms <= RESUME_START_MS and not record.stop_asked
        with suppress(StartError):  # told like any other end
            if young and self._site.world.looked_ms is not None:
                self._submit(record)
            elif not young:
                starting.give_up(self._site, record, "the launcher died while it started the attempt")

    def close(self) -> None:
        """Hold nothing: jobs are Slurm's."""

    # reports

    def live(self) -> bool:
        """Whether any attempt is under way."""
        with self._lock:
            return any(record.state != "ended" or not record.exited_told for record in self._site.newest())

    def reader(self) -> Mapping[str, Any]:
        """How well the controller is seen."""
        return self._site.world.reader()

    def poll(self, *, now_ms: int) -> Sequence[Report | Notice]:
        """Reports that are due; without an answer of the controller none, since nothing is known."""
        if not self._site.world.look(now_ms):
            return []
        with self._lock:
            for record in self._site.newest():
                self._finish_start(record, now_ms)
            self._cancel_strays()
            self._waiting.tend(now_ms)
            due = [report for record in self._site.newest() for report in self._reports(record, now_ms)]
            return [*self._teller.due(self._states(now_ms), now_ms), *due]

    def told(self, report: Report) -> None:
        """Note that a report is durable."""
        with self._lock:
            record = self._site.records.newest(report.run)
            if record is None or record.attempt != report.attempt:
                return
            if report.kind == "attempt.started":
                record.started_told = True
            else:
                record.exited_told, record.state = True, "ended"
            self._site.records.note(record)

    def _reports(self, record: AttemptRecord, now_ms: int) -> list[Report]:
        if record.state != "running":
            return []
        job = self._site.job_of(record)
        begun = job is not None and job.state != PENDING and bool(job.nodes)
        due = [repeats.started(record, self.scheduler)] if begun and not record.started_told else []
        if not self._has_ended(record, job, now_ms):
            return due
        data = ends.exited(record, job, self._by(record, job))
        return [*due, Report(kind="attempt.exited", run=record.run, attempt=record.attempt, data=data)]

    def _has_ended(self, record: AttemptRecord, job: Job | None, now_ms: int) -> bool:
        """Whether Slurm says so; a job that completes has not ended yet."""
        if job is not None:
            return not job.active
        return bool(record.why) or self._site.world.forgotten(record.job, now_ms)

    def _by(self, record: AttemptRecord, job: Job | None) -> str:
        """Who cancelled a job that we did not end: the accounts may take seconds to tell."""
        if job is None or job.state != ends.CANCELLED or record.stop_asked:
            return ""
        if job.job_id not in self._cancelled_by:
            self._cancelled_by[job.job_id] = self._site.tools.cancelled_by(job.job_id)
        return self._cancelled_by[job.job_id]

    def _cancel_strays(self) -> None:
        """End jobs that nobody counts on: of a submission that was given up, or a second one of the same attempt."""
        for record in self._site.newest():
            mark = self._site.mark(record.run, record.attempt)
            for job in list(self._site.world.jobs.values()):
                stray = job.comment == mark and (record.why or (record.job and job.job_id != record.job))
                if stray and job.active:
                    self._waiting.each([job], self._site.tools.cancel)

    def _states(self, now_ms: int) -> Iterator[tuple[str, Notice]]:
        yield from states.of_nodes(self._site.world.nodes, self._site.config.nodes)
        yield from states.of_maintenances(self._site.world.maintenances)
        for record in self._site.newest():
            job, queue = self._site.job_of(record), self._waiting.queued(record.run)
            if job is not None and (job.active or not record.exited_told):
                yield from states.of_attempt(record, job, self._by(record, job), len(queue), now_ms)
            for waits in queue:
                yield from states.of_successor(record.run, waits, now_ms)

    # the queue and the nodes

    def hold(self, run: str) -> Mapping[str, Any]:
        """Keep the waiting jobs of a run from starting, in their places."""
        return self._asked(lambda: self._waiting.hold(self._known(run), held=True))

    def release(self, run: str) -> Mapping[str, Any]:
        """Let them start again."""
        return self._asked(lambda: self._waiting.hold(self._known(run), held=False))

    def keep(self, run: str, count: int, exclude: Sequence[str]) -> Mapping[str, Any]:
        """Keep successors queued behind the run's job."""
        return self._asked(lambda: self._waiting.keep(self._known(run), count, list(exclude)))

    def drain(self, nodes_: Sequence[str], reason: str) -> Mapping[str, Any]:
        """Let Slurm place nothing more on nodes, marked as ours."""
        return self._asked(lambda: nodes.drain(self._site.tools, nodes_, reason))

    def resume(self, nodes_: Sequence[str]) -> Mapping[str, Any]:
        """Give back nodes that we drained."""
        return self._asked(lambda: nodes.resume(self._site.tools, nodes_))

    def _known(self, run: str) -> str:
        self._site.config.run(run)
        return run

    def _asked(self, act: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        with self._lock:
            return starting.known(act)
