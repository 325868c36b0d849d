"""Submit an attempt once: the intent is written first, and the job is looked for by its mark before it is submitted.

What Slurm has is taken from the world's picture, which its caller has just renewed.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from middlewatch_agent.launcher import plan, processes
from middlewatch_agent.launcher.base import RefusedError, StartError, StartRequest
from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm import nodes, orders, script
from middlewatch_agent.launcher.slurm.site import Site
from middlewatch_agent.launcher.slurm.tools import ToolError, UnknownError

T = TypeVar("T")


def known(look: Callable[[], T]) -> T:
    """What Slurm answers. Raises StartError where it does not: nothing is begun on what nobody knows."""
    try:
        return look()
    except (UnknownError, ToolError) as error:
        raise StartError(f"Slurm was asked and gave no usable answer: {error}") from error


def lay_out(site: Site, request: StartRequest, exclude: Sequence[str], *, now_ms: int) -> AttemptRecord:
    """Plan an attempt that may begin. Raises RefusedError."""
    record = plan.attempt_record(site.config, request, now_ms=now_ms)
    record.exclude = sorted({*request.exclude, *exclude} - {*request.nodes})
    record.master_port = script.port(site.config.slurm, site.mark(request.run, request.attempt))
    record.master_addr = _address(site, request.nodes)
    orders.encode(site.config, record)
    _refuse_beside_another(site, request.run)
    return record


def submit(site: Site, record: AttemptRecord) -> None:
    """Submit the job, or take up the one that an earlier try has left. Raises StartError."""
    mark = site.mark(record.run, record.attempt)
    try:
        found = [job for job in site.world.jobs.values() if job.comment == mark]
        record.job = found[0].job_id if found else site.submit(record.run, _job(site, record, mark))
    except UnknownError as error:
        give_up(site, record, f"Slurm gave no answer ({error}); if the job appears, it is cancelled")
    except (ToolError, OSError) as error:
        give_up(site, record, f"could not be submitted: {error}")
    record.state = "running"
    site.records.save(record)


def give_up(site: Site, record: AttemptRecord, why: str) -> None:
    """Let an attempt have failed before it began. Raises StartError."""
    record.why, record.state = why, "running"
    site.records.save(record)
    raise StartError(why)


def _address(site: Site, names: Sequence[str]) -> str:
    """Give the address of rank 0's node; refuse nodes for which the job would wait in the queue."""
    there = site.world.nodes
    for name in names:
        if name not in there:
            raise RefusedError(f"nodes: Slurm does not know {name}")
        if why := nodes.unusable(there[name]):
            raise RefusedError(f"nodes: {name} {why}")
    return there[names[0]].address or names[0]


def _refuse_beside_another(site: Site, run: str) -> None:
    """Refuse a second attempt beside a living one, also of a launcher whose place this one has taken."""
    for job in site.world.jobs.values():
        attempt = script.attempt_of(job.comment, run)
        if job.active and attempt:
            raise RefusedError(f"attempt {attempt} of run {run} still lives as job {job.job_id}, {job.state}")
    if left := processes.of_run(run, plan.sockets(site.config)):
        raise RefusedError(
            f"attempt {left[0].attempt} of run {run} still has {len(left)} living processes, "
            f"one is {left[0].pid} on {left[0].node}"
        )


def _job(site: Site, record: AttemptRecord, mark: str) -> script.Job:
    return script.Job(
        mark=mark, name=f"{record.run}.{record.attempt}", count=len(record.nodes),
        ranks_per_node=site.config.run(record.run).ranks_per_node, order=orders.encode(site.config, record),
        wanted=record.nodes, exclude=record.exclude,
    )  # fmt: skip
