"""Work out what each rank of an attempt is started with. Pure but for the choice of a free port."""

import hashlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from middlewatch_agent.launcher.base import RefusedError, StartRequest
from middlewatch_agent.launcher.config import LauncherConfig
from middlewatch_agent.launcher.records import AttemptRecord, RankRecord

MASTER_ADDR = "127.0.0.1"
SKIP_BATCHES = "skip_batches"
MAX_SOCKET_PATH = 107
"""Bytes of a unix socket's path that the kernel takes."""


def free_port() -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind((MASTER_ADDR, 0))
        return int(probe.getsockname()[1])


def checkpoint_path(config: LauncherConfig, run: str, step: int) -> str | None:
    """The folder a start resumes from. Raises RefusedError where it is not there; None for step 0."""
    if step == 0:
        return None
    path = Path(config.run(run).checkpoint_dir) / f"step-{step}"
    if not path.is_dir():
        raise RefusedError(f"there is no checkpoint of step {step} of run {run}")
    return str(path)


def attempt_record(config: LauncherConfig, request: StartRequest, *, now_ms: int) -> AttemptRecord:
    """Lay out an attempt: ranks in the order of its nodes. Raises RefusedError for what is not configured."""
    if not request.nodes or len(set(request.nodes)) != len(request.nodes):
        raise RefusedError("nodes: an attempt needs at least one node and each only once")
    return AttemptRecord(
        run=request.run,
        attempt=request.attempt,
        nodes=list(request.nodes),
        resume_step=request.resume_step,
        resume_path=checkpoint_path(config, request.run, request.resume_step),
        skip=_skip(config, request),
        supports=list(config.run(request.run).supports),
        master_port=free_port(),
        started_at_ms=now_ms,
        ranks=ranks(config, request.run, request.attempt, request.nodes),
    )


def ranks(config: LauncherConfig, run: str, attempt: int, nodes: Sequence[str]) -> list[RankRecord]:
    """Number the ranks in the order of the nodes."""
    per_node = config.run(run).ranks_per_node
    return [
        _rank(config, f"{run}.{attempt}", node, index * per_node + local_rank, local_rank)
        for index, node in enumerate(nodes)
        for local_rank in range(per_node)
    ]


def _skip(config: LauncherConfig, request: StartRequest) -> tuple[int, int] | None:
    if request.skip is None:
        return None
    if SKIP_BATCHES not in config.run(request.run).supports:
        raise RefusedError(f"run {request.run} does not declare {SKIP_BATCHES} in its `supports`")
    if request.skip[0] > request.skip[1]:
        raise RefusedError("skip: the first step is after the last")
    return request.skip


def _rank(config: LauncherConfig, name: str, node: str, rank: int, local_rank: int) -> RankRecord:
    status = Path(config.node(node).state_dir) / "ranks" / f"{name}.{rank}.json"
    return RankRecord(rank=rank, local_rank=local_rank, node=node, status=str(status))


def sockets(config: LauncherConfig) -> frozenset[str]:
    """The hook sockets of all nodes: what tells our ranks from those of another installation."""
    return frozenset(agent_socket(node.state_dir) for node in config.nodes.values())


def agent_socket(state_dir: str) -> str:
    """Where the hooks of a node's ranks send to."""
    return str(Path(state_dir) / "agent.sock")


def worker_socket(state_dir: str, name: str) -> str:
    """Where a rank's WorkerServer listens; a name too long for a socket is shortened."""
    path = str(Path(state_dir) / "worker" / f"{name}.sock")
    if len(path.encode()) <= MAX_SOCKET_PATH:
        return path
    short = hashlib.blake2s(name.encode(), digest_size=4).hexdigest()
    return str(Path(state_dir) / "worker" / short)


def log_file(config: LauncherConfig, record: AttemptRecord, rank: RankRecord) -> Path:
    """Where a rank's output goes."""
    folder = Path(config.node(rank.node).state_dir) / "logs"
    return folder / f"{record.run}.{record.attempt}.{rank.rank}.log"


def environment(
    config: LauncherConfig, record: AttemptRecord, rank: RankRecord, base: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a rank: the launcher's own, the run's, and the contract's on top."""
    run, state_dir = config.run(record.run), config.node(rank.node).state_dir
    name = f"{record.run}.{record.attempt}.{rank.rank}"
    inherited = {key: value for key, value in base.items() if not key.startswith("MIDDLEWATCH_")}
    return inherited | run.env | {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local_rank),
        "WORLD_SIZE": str(record.world_size),
        "MASTER_ADDR": record.master_addr,
        "MASTER_PORT": str(record.master_port),
        "TORCHELASTIC_ERROR_FILE": f"{os.path.splitext(rank.status)[0]}.error",  # noqa: PTH122 (a name may hold dots)
        "MIDDLEWATCH_RUN": record.run,
        "MIDDLEWATCH_ATTEMPT": str(record.attempt),
        "MIDDLEWATCH_NODE": rank.node,
        "MIDDLEWATCH_SOCKET": agent_socket(state_dir),
        "MIDDLEWATCH_WORKER_SOCKET": worker_socket(state_dir, name),
        "MIDDLEWATCH_CHECKPOINT_DIR": run.checkpoint_dir,
        "MIDDLEWATCH_RESUME_STEP": str(record.resume_step),
    } | ({"MIDDLEWATCH_SKIP_BATCHES": f"{record.skip[0]}:{record.skip[1]}"} if record.skip else {})  # fmt: skip
