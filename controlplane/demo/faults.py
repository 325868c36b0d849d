"""The three ways in which the demonstration hurts the run.

Each is what the operating system would do to real processes; nothing in the
product knows that a demonstration is running.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from controlplane.demo.cluster import Cluster, RankProcess, kill
from controlplane.domain.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of harm: how to say it, how to do it, and the class that is right."""

    kind: str
    klass: str
    sentence: str
    hurt: Callable[[Cluster, RankProcess], None]


def crash(_: Cluster, victim: RankProcess) -> None:
    """Kill one rank as the kernel's out-of-memory killer would."""
    os.kill(victim.pid, signal.SIGKILL)


def hang(_: Cluster, victim: RankProcess) -> None:
    """Freeze one rank: it stays alive, says nothing, and all others wait for it."""
    os.kill(victim.pid, signal.SIGSTOP)


def lose_node(cluster: Cluster, victim: RankProcess) -> None:
    """Kill the agent and every rank of a node in one instant, as a power cut does."""
    kill([cluster.agents[victim.node], *cluster.processes_on(victim.node)])


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
