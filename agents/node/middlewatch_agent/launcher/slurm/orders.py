"""What a job of ours carries to the nodes: everything that a rank is started with, and nothing from the network.

Compute nodes need neither launcher.toml nor a way to the head node: the order lies in
the environment of the batch job. A successor begins before anybody knows which
attempt it will be, so its order is a file in the launcher's folder that it waits for.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from middlewatch_agent.files import write_private
from middlewatch_agent.launcher import plan
from middlewatch_agent.launcher.base import RefusedError
from middlewatch_agent.launcher.config import LauncherConfig, NodeConfig, RunConfig
from middlewatch_agent.launcher.records import AttemptRecord, RankRecord

MAX_BYTES = 120_000
"""The kernel takes 128 KiB in one variable of an environment."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as its nodes see it. The ranks follow from the nodes; they are not written out."""

    record: AttemptRecord
    run: RunConfig
    nodes: dict[str, NodeConfig]

    @property
    def config(self) -> LauncherConfig:
        """The part of launcher.toml that matters here."""
        return LauncherConfig(runs={self.record.run: self.run}, nodes=self.nodes)

    def rank_of(self, node: str, local_rank: int) -> tuple[AttemptRecord, RankRecord]:
        """The attempt, and the rank that stands in this place of it."""
        record = self.record
        ranks = plan.ranks(self.config, record.run, record.attempt, record.nodes)
        place = record.nodes.index(node) * self.run.ranks_per_node + local_rank
        return msgspec.structs.replace(record, ranks=ranks), ranks[place]


def encode(config: LauncherConfig, record: AttemptRecord) -> str:
    """Write the order of an attempt. Raises RefusedError where it is too long for a job."""
    order = Order(
        record=msgspec.structs.replace(record, ranks=[]),
        run=config.run(record.run),
        nodes={name: config.node(name) for name in record.nodes},
    )
    text = msgspec.json.encode(order).decode()
    if len(text) > MAX_BYTES:
        raise RefusedError(f"nodes: the order of run {record.run} would be {len(text)} bytes, the most is {MAX_BYTES}")
    return text


def decode(text: str) -> Order:
    """Read an order, or the file that it names. Raises ValueError or OSError."""
    content = text if text.startswith("{") else Path(text).read_text()
    return msgspec.json.decode(content, type=Order)


def file_of(folder: Path, job_id: str) -> Path:
    """Where a job that has begun finds its order."""
    return folder / f"{job_id}.json"


def give(folder: Path, job_id: str, text: str) -> None:
    """Let a waiting job begin."""
    write_private(file_of(folder, job_id), text)


def forget(folder: Path, living: Mapping[str, object]) -> None:
    """Delete the orders of jobs that are gone."""
    for path in folder.glob("*.json"):
        if path.stem not in living:
            path.unlink(missing_ok=True)
