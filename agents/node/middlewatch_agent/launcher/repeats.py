"""What it means to be asked for the same start again, whichever scheduler carries it out."""

from middlewatch_agent.launcher.base import RefusedError, Report, StartError, StartRequest
from middlewatch_agent.launcher.records import AttemptRecord


def again(newest: AttemptRecord | None, request: StartRequest) -> AttemptRecord | None:
    """Give the attempt that this very request has begun before, or None. Raises RefusedError or StartError."""
    if newest is None or newest.attempt < request.attempt:
        return None
    if newest.attempt > request.attempt:
        raise RefusedError(f"attempt {newest.attempt} of run {request.run} is newer than {request.attempt}")
    if newest.why:
        raise StartError(newest.why)
    if newest.state == "ended" and not newest.started_told:
        raise RefusedError(f"attempt {request.attempt} of run {request.run} was stopped before it started")
    asked = (request.nodes, request.resume_step, request.skip)
    if (tuple(newest.nodes), newest.resume_step, newest.skip) != asked:
        raise RefusedError(f"attempt {request.attempt} of run {request.run} was started with other nodes or step")
    return newest


def forestalled(newest: AttemptRecord | None, request: StartRequest) -> AttemptRecord | None:
    """Give the successor that has become the very attempt that is asked for, where it serves as well, or None.

    It does not where somebody wants an older step, other batches or none of its nodes:
    then the request is refused as any other that comes too late.
    """
    if newest is None or newest.attempt != request.attempt or not newest.successor:
        return None
    lives = newest.state == "running" and not newest.stop_asked and not newest.why
    fits = newest.resume_step <= request.resume_step and newest.skip == request.skip
    return newest if lives and fits and not {*newest.nodes} & {*request.exclude} else None


def never_started(run: str, attempt: int) -> AttemptRecord:
    """Remember a stop that overtook its start, so that the late start is refused."""
    return AttemptRecord(
        run=run, attempt=attempt, nodes=[], resume_step=0, resume_path=None, master_port=0,
        started_at_ms=0, ranks=[], state="ended", stop_asked=True, exited_told=True,
    )  # fmt: skip


def started(record: AttemptRecord, scheduler: str) -> Report:
    """The `attempt.started` of a record."""
    resume = {"step": record.resume_step, "path": record.resume_path, "tier": "persistent"}
    data = {
        "scheduler": scheduler,
        "job_id": record.job_id,
        "nodes": record.nodes,
        "world_size": record.world_size,
        "resume": resume if record.resume_step else {"step": 0},
        "supports": record.supports,
    }
    return Report(kind="attempt.started", run=record.run, attempt=record.attempt, data=data)
