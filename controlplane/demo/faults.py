"""The ways in which the demonstration hurts the run.

Four are what the operating system would do to real processes, one puts pipes where
files are written, three are asked of the ranks' saboteur. Nothing in the product
knows that a demonstration is running.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from controlplane.demo import stuck
from controlplane.demo.cluster import CHECKPOINT_EVERY, SLURM_FOLDER, Cluster, RankProcess, kill
from controlplane.demo.slurm_lab import SlurmLab
from controlplane.domain.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of harm: how to say it, how to do it, and the class that is right.

    What would not end by itself is healed after `heals_after_s`. `steady_steps` must have
    been made before it, since a detector needs them to know what is usual.
    """

    kind: str
    klass: str
    sentence: str
    hurt: Callable[[Cluster, RankProcess], None]
    heals_after_s: float | None = None
    heal: Callable[[Cluster], None] = lambda _: None
    steady_steps: int = 30
    scheduler: str = ""
    """The only scheduler under which it can happen, "" for any."""


def crash(_: Cluster, victim: RankProcess) -> None:
    """Kill one rank as the kernel's out-of-memory killer would."""
    os.kill(victim.pid, signal.SIGKILL)


def hang(_: Cluster, victim: RankProcess) -> None:
    """Freeze one rank: it stays alive, says nothing, and all others wait for it."""
    os.kill(victim.pid, signal.SIGSTOP)


def lose_node(cluster: Cluster, victim: RankProcess) -> None:
    """Kill the agent and every rank of a node in one instant, as a power cut does."""
    kill([cluster.agents[victim.node], *cluster.processes_on(victim.node)])


def freeze(cluster: Cluster, victim: RankProcess) -> None:
    """Let a whole host stand still: Slurm's daemon, all that it started, and the node's agent."""
    slurm = SlurmLab(cluster.home / SLURM_FOLDER)
    for pid in (cluster.agents[victim.node], *(process.pid for process in slurm.processes(victim.node))):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def slow(cluster: Cluster, victim: RankProcess) -> None:
    """Make one rank compute a fifth longer, as a GPU that throttles; all others wait for it."""
    cluster.ask("slow", attempt=victim.attempt, rank=victim.rank, seconds=SLOWER_S)


def spoil(cluster: Cluster, victim: RankProcess) -> None:
    """Make the loss no number on every rank at once."""
    cluster.ask("nan", attempt=victim.attempt)


def limbo(cluster: Cluster, victim: RankProcess) -> None:
    """Let one rank die while its peers neither work nor end."""
    cluster.ask("limbo", attempt=victim.attempt, rank=victim.rank)


def block_storage(cluster: Cluster, _: RankProcess) -> None:
    """Let the folder of the checkpoints stop answering, for ranks and probes alike."""
    newest = max((int(path.name.removeprefix("step-")) for path in cluster.saved()), default=0)
    steps = [newest + CHECKPOINT_EVERY * number for number in range(1, stuck.AHEAD + 1)]
    for folder in cluster.run_folders():
        stuck.block(folder, steps, len(cluster.ranks()))


def free_storage(cluster: Cluster) -> None:
    """Let the folder answer again."""
    for folder in cluster.run_folders():
        stuck.release(folder)


SLOWER_S = 0.05
STORAGE_AWAY_S = 20.0
DEFAULT = ("crash", "hang", "node-loss")
"""What the demonstration does when nobody says otherwise."""
SLURM_DEFAULT = ("crash", "hang", "frozen")
"""The same under Slurm, where a host that stands still is told from one whose agent died."""

FAULTS = {
    fault.kind: fault
    for fault in (
        Fault(kind="crash", klass="crash", sentence="kill -9 of rank {rank} on {node} (pid {pid})", hurt=crash),
        Fault(kind="hang", klass="hang", sentence="SIGSTOP of rank {rank} on {node} (pid {pid})", hurt=hang),
        Fault(
            kind="node-loss",
            klass="node_lost",
            sentence="node {node} loses power: its agent and its ranks are gone at once",
            hurt=lose_node,
        ),
        Fault(
            kind="frozen",
            klass="node_lost",
            sentence="node {node} freezes: slurmd, its tasks and its agent stand still",
            hurt=freeze,
            scheduler="slurm",
        ),
        Fault(
            kind="slow",
            klass="fail_slow",
            sentence="rank {rank} on {node} makes each step a fifth longer from now on",
            hurt=slow,
            steady_steps=90,
        ),
        Fault(
            kind="nan",
            klass="loss_anomaly",
            sentence="the loss of every rank is no number from now on",
            hurt=spoil,
            steady_steps=130,
        ),
        Fault(
            kind="limbo",
            klass="crash_no_exit",
            sentence="rank {rank} on {node} (pid {pid}) dies, and its peers neither work nor end",
            hurt=limbo,
        ),
        Fault(
            kind="storage",
            klass="storage_stall",
            sentence="the folder of the checkpoints stops answering for a while",
            hurt=block_storage,
            heals_after_s=STORAGE_AWAY_S,
            heal=free_storage,
        ),
    )
}


def parse(text: str) -> list[Fault]:
    """Read a comma-separated list of fault kinds.

    Raises:
        Invalid: a kind is not known; the message lists those that are.
    """
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    for kind in kinds:
        if kind not in FAULTS:
            raise Invalid("--faults", f"“{kind}” is not one of {', '.join(FAULTS)}")
    return [FAULTS[kind] for kind in kinds]
