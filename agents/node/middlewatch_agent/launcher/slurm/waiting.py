"""Carry out what is wanted of a run's successors: keep them queued, hold them, and let one go on."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from middlewatch_agent.launcher import plan, scanning
from middlewatch_agent.launcher.base import RefusedError, StartError, StartRequest
from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm import ends, orders, script, successors
from middlewatch_agent.launcher.slurm.site import Site
from middlewatch_agent.launcher.slurm.successors import Wish, Wishes
from middlewatch_agent.launcher.slurm.tools import ToolError, UnknownError
from middlewatch_agent.launcher.slurm.view import PENDING, Job

log = logging.getLogger(__name__)


class Waiting:
    """The queued jobs of all runs. Not locked: its one user holds a lock."""

    def __init__(self, site: Site, wishes: Wishes) -> None:
        """Remember wishes in `wishes`."""
        self._site = site
        self._wishes = wishes
        self._begun_ms: dict[str, int] = {}

    # what people and runbooks ask for

    def keep(self, run: str, count: int, exclude: list[str]) -> dict[str, object]:
        """Keep `count` jobs queued behind the run's. Raises UnknownError, ToolError or RefusedError."""
        record = self._site.records.newest(run)
        if count and (record is None or record.state != "running"):
            raise RefusedError(f"run {run} has no job that another could follow")
        wish = self._wishes.of(run)
        self._wishes.save(run, replace(wish, count=count, exclude=sorted(exclude)))
        self._match(run, self._fresh())
        return {"successors": [job.job_id for job in self._queue(run, self._fresh())]}

    def hold(self, run: str, *, held: bool) -> dict[str, object]:
        """Hold every job of a run that waits, or let those go that were held here; the place in the queue stays.

        After a stop they stay held until an attempt is started again.
        """
        self._wishes.save(run, replace(self._wishes.of(run), held=held))
        prefix = self._site.mark(run, None).removesuffix(script.NEXT)
        found = [job for job in self._fresh().values() if job.comment.startswith(prefix) and job.state == PENDING]
        if held:
            return {"held": self._hold(run, found)}
        return {"released": [] if self._wishes.of(run).paused else self._release(run, found)}

    def _hold(self, run: str, jobs: list[Job]) -> list[str]:
        """Hold jobs and remember which: one that a person holds stays theirs. Gives those that are held by us now."""
        wish, free = self._wishes.of(run), [job for job in jobs if not job.held]
        ours = {*wish.holds, *(job.job_id for job in free)}
        self._wishes.save(run, replace(wish, holds=sorted(ours)))
        self.each(free, self._site.tools.hold)
        return [job.job_id for job in jobs if job.job_id in ours]

    def _release(self, run: str, jobs: list[Job]) -> list[str]:
        """Let those of the jobs go on that we hold."""
        ours = [job for job in jobs if job.job_id in self._wishes.of(run).holds]
        self.each(ours, self._site.tools.release)
        self._wishes.save(run, replace(self._wishes.of(run), holds=[]))
        return [job.job_id for job in ours]

    # what follows from attempts

    def excluded(self, run: str) -> list[str]:
        """Nodes that no job of the run may use."""
        return self._wishes.of(run).exclude

    def queued(self, run: str) -> list[Job]:
        """The successors that wait, in the newest picture."""
        return self._queue(run, self._site.world.jobs)

    def make_way(self, run: str) -> None:
        """Let an attempt that was asked for have the nodes of a successor that began without knowing what it is."""
        self.each(self._begun(run, self._site.world.jobs), self._site.tools.cancel)

    def follow(self, run: str) -> None:
        """Let the waiting jobs follow a new attempt; what cannot be done now is done at a later look."""
        with suppress(UnknownError, ToolError):
            self._match(run, self._site.world.jobs)

    def pause(self, run: str, jobs: Mapping[str, Job]) -> None:
        """Keep the waiting jobs from beginning until an attempt is started again; one that does begin is cancelled."""
        self._wishes.save(run, replace(self._wishes.of(run), paused=True))
        with suppress(UnknownError, ToolError):
            self._hold(run, self._queue(run, jobs))

    def tend(self, now_ms: int) -> None:
        """Keep every run's queue as it is wanted, and give an order to a successor that may go on."""
        for record in self._site.newest():
            try:
                self._tend(record, now_ms)
            except (UnknownError, ToolError, StartError, RefusedError) as error:
                log.warning("The queue of run %s could not be kept: %s", record.run, error)

    def _tend(self, record: AttemptRecord, now_ms: int) -> None:
        job = self._site.job_of(record)
        if job is not None and job.active and record.state == "running":
            self._mark(record, job)
            self.each(self._begun(record.run, self._site.world.jobs), self._site.tools.cancel)
            self._match(record.run, self._site.world.jobs)
        elif job is not None and record.exited_told:
            self._carry_on(record, str(ends.exited(record, job, "")["reason"]), now_ms)

    def _mark(self, record: AttemptRecord, job: Job) -> None:
        """Let a successor be known as the attempt that it has become, also to a launcher without our records."""
        mark = self._site.mark(record.run, record.attempt)
        if job.comment != mark:
            self.each([job], lambda job_id: self._site.tools.update_job(job_id, comment=mark))

    def _carry_on(self, record: AttemptRecord, reason: str, now_ms: int) -> None:
        """Decide on the successors of an attempt that has ended."""
        wish, tools = self._wishes.of(record.run), self._site.tools
        for job in self._begun(record.run, self._site.world.jobs):
            waited_s = (now_ms - self._begun_ms.setdefault(job.job_id, now_ms)) / 1000
            may = successors.may_begin(record, wish, reason, waited_s, self._site.config.slurm.order_s)
            if may is None or (may and self._order(record, job, now_ms)):
                return
            tools.cancel(job.job_id)
        if reason == "completed":
            self.each(self.queued(record.run), tools.cancel)
        elif reason in successors.NEVER and not wish.paused:
            self.pause(record.run, self._site.world.jobs)

    def _order(self, before: AttemptRecord, job: Job, now_ms: int) -> bool:
        """Make a job that has begun the run's next attempt; False where Slurm put it on nodes that are not ours."""
        site = self._site
        if not all(name in site.config.nodes for name in job.nodes):
            return False
        step = scanning.newest_complete(site.config, before.run)
        request = StartRequest(run=before.run, attempt=before.attempt + 1, nodes=job.nodes, resume_step=step)
        record = plan.attempt_record(site.config, request, now_ms=now_ms)
        node = site.world.nodes.get(job.nodes[0])
        record.master_addr = node.address if node else job.nodes[0]
        record.master_port = script.port(site.config.slurm, site.mark(before.run, request.attempt))
        record.job, record.state, record.exclude = job.job_id, "running", self.excluded(before.run)
        record.successor = True
        text = orders.encode(site.config, record)
        site.records.save(record)
        orders.give(site.orders, job.job_id, text)
        orders.forget(site.orders, site.world.jobs)
        return True

    # the queue

    def _fresh(self) -> dict[str, Job]:
        return {job.job_id: job for job in self._site.tools.jobs()}

    def _queue(self, run: str, jobs: Mapping[str, Job]) -> list[Job]:
        return successors.waiting(jobs, self._site.mark(run, None))

    def _begun(self, run: str, jobs: Mapping[str, Job]) -> list[Job]:
        return successors.begun(jobs, self._site.mark(run, None), self._site.orders)

    def _match(self, run: str, jobs: Mapping[str, Job]) -> None:
        """Let the queue be as it is wanted: so many jobs, in a chain behind the attempt's, and off what is excluded."""
        record, wish, queue = self._site.records.newest(run), self._wishes.of(run), self._queue(run, jobs)
        if record is None:
            return
        self.each(queue[wish.count :], self._site.tools.cancel)
        queue = queue[: wish.count]
        if any(successors.is_astray(job, record, wish) for job in queue):
            successors.rechain(self._site.tools, queue, record, wish.exclude)
        self._go_on(run, wish, queue)
        ahead = [record.job, *(job.job_id for job in queue[-1:])]
        for _ in range(wish.count - len(queue)):
            ahead = [record.job, self._site.submit(run, self._successor(record, wish, ahead))]
        if wish.held and wish.count > len(queue):
            self._hold(run, self._queue(run, self._fresh()))

    def _go_on(self, run: str, wish: Wish, queue: list[Job]) -> None:
        """Release what a stop has held, unless somebody wants it held."""
        if wish.paused:
            self._wishes.save(run, replace(wish, paused=False))
            if not wish.held:
                self._release(run, queue)

    def _successor(self, record: AttemptRecord, wish: Wish, after: list[str]) -> script.Job:
        return script.Job(
            mark=self._site.mark(record.run, None), name=f"{record.run}.{script.NEXT}", count=len(record.nodes),
            ranks_per_node=self._site.config.run(record.run).ranks_per_node, order=str(self._site.orders),
            exclude=wish.exclude, after=after, waits=True,
        )  # fmt: skip

    def each(self, jobs: list[Job], act: Callable[[str], None]) -> None:
        """Act on jobs of which one may have gone meanwhile."""
        for job in jobs:
            try:
                act(job.job_id)
            except ToolError as error:
                log.info("Job %s: %s", job.job_id, error)
