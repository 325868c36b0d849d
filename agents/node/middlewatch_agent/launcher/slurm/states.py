"""Tell the states of jobs and nodes when they change, and once a minute so that their age is known."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from middlewatch_agent.launcher.base import Notice
from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm import ends, nodes
from middlewatch_agent.launcher.slurm.view import PENDING, RUNNING, Job, Maintenance, Node

EVERY_MS = 60_000
MAX_KNOWN = 65_536


class Teller:
    """Remembers what was told last."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._told: dict[str, tuple[str, int]] = {}

    def due(self, reports: Iterator[tuple[str, Notice]], now_ms: int) -> list[Notice]:
        """Keep the reports that say something new, or whose last telling is a minute old."""
        return [report for key, report in reports if self._is_due(key, report, now_ms)]

    def _is_due(self, key: str, report: Notice, now_ms: int) -> bool:
        text = json.dumps({**report.data, "queued_s": None}, sort_keys=True)
        before, at_ms = self._told.get(key, ("", 0))
        if text == before and now_ms - at_ms < EVERY_MS:
            return False
        if len(self._told) >= MAX_KNOWN:
            self._told.clear()
        self._told[key] = (text, now_ms)
        return True


def of_nodes(known: Mapping[str, Node], names: Iterable[str]) -> Iterator[tuple[str, Notice]]:
    """The `scheduler.node` of each node that is ours to use."""
    for name in names:
        node = known.get(name, Node(name=name, state="unknown"))
        data = {"node": name, "state": node.state, "reason": node.reason, "owner": _owner(node)}
        yield f"node:{name}", Notice(kind="scheduler.node", data=data)


def _owner(node: Node) -> str:
    """Name who took a node out: `middlewatch` for ourselves; nobody for a node in use."""
    if node.state not in nodes.OUT:
        return ""
    return ends.OURS if nodes.is_ours(node) else node.owner


def of_maintenances(planned: Iterable[Maintenance]) -> Iterator[tuple[str, Notice]]:
    """The `capacity.notice` of each announced maintenance."""
    for one in planned:
        data = {
            "what": "maintenance",
            "nodes": list(one.nodes),
            "begins_at_ms": round(one.begins_s * 1000),
            "ends_at_ms": round(one.ends_s * 1000),
        }
        yield f"maintenance:{one.name}", Notice(kind="capacity.notice", data=data)


def of_attempt(record: AttemptRecord, job: Job, by: str, successors: int, now_ms: int) -> Iterator[tuple[str, Notice]]:
    """The `scheduler.job` of an attempt's job, and the end of its allocation where it has one."""
    key = f"job:{job.job_id}"
    data = _data(job, now_ms) | ends.told_state(record, job, by) | {"successors": successors}
    yield key, Notice(kind="scheduler.job", run=record.run, attempt=record.attempt, data=data)
    if job.state == RUNNING and job.ends_s:
        notice = {"what": "allocation_end", "nodes": list(job.nodes), "ends_at_ms": job.ends_s * 1000}
        yield f"end:{key}", Notice(
            kind="capacity.notice", run=record.run, attempt=record.attempt, data=notice
        )  # fmt: skip


def of_successor(run: str, job: Job, now_ms: int) -> Iterator[tuple[str, Notice]]:
    """The `scheduler.job` of a job that waits behind the run's; one that has begun is told as its attempt."""
    if job.state == PENDING:
        data = _data(job, now_ms) | {"state": job.state}
        yield f"job:{job.job_id}", Notice(kind="scheduler.job", run=run, attempt=None, data=data)


def _data(job: Job, now_ms: int) -> dict[str, Any]:
    queued_s = max(0.0, now_ms / 1000 - job.submitted_s) if job.state == PENDING and job.submitted_s else None
    return {
        "job_id": job.job_id,
        "reason": job.reason,
        "nodes": list(job.nodes),
        "exclusive": job.exclusive,
        **({"queued_s": round(queued_s, 1)} if queued_s is not None else {}),
    }
