"""Try the storage by two sources before anything is launched on it (R-12).

The launcher reads what a restart would read, and a node of the run says how long its own
write takes: one alone may tell of its own trouble or of its own cache. A node that says
nothing is no witness, and a storage that the launcher reads is not kept waiting for one.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from controlplane.domain.chronicle.words import listed
from controlplane.events import queries as events
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn

POLL_S = 5.0
NEWEST = 1
FRESH = timedelta(seconds=45)
"""Three times the default period of the nodes' measurements: what was measured earlier says nothing of now."""
WITNESS_S = 15.0
"""How long a node may take to say something of its own."""


class ProbeStorage(Step):
    """A launcher that reads a checkpoint's files, and a node that writes in time, have a storage that answers."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the launcher to read; the nodes measure by themselves."""
        args = {"run": turn.run.name, "newest": NEWEST}
        turn.command(turn.run.launcher, "checkpoints.scan", args, within_s=turn.spec.limit_s)
        return {}

    def look(self, turn: Turn) -> Outcome:
        """Be done when it has read and a node agrees; a read or write that hangs is the trouble itself."""
        command = next(iter(turn.commands()), None)
        if command is not None and not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if command is None or not succeeded(command):
            return Failed(refusal(command) if command else "the launcher was not asked")
        probes = dict(_probes(turn))
        slow = sorted(name for name, ms in probes.items() if ms > turn.policy.probe_slow_ms)
        if slow and len(slow) == len(probes):
            return Failed(f"the launcher reads, but {listed(slow)} cannot write in time")
        if not probes and turn.now < turn.tried.started_at + timedelta(seconds=WITNESS_S):
            return Wait(turn.in_s(POLL_S), "a node to say that it can write")
        return Done(_facts(command, sorted(probes.keys() - set(slow))))


def _facts(command: Any, fast: list[str]) -> dict[str, Any]:
    found = answer(command).get("checkpoints")
    said = f"{listed(fast)} wrote in time" if fast else "no node of the run said anything of its own"
    return {"storage_answers": True, "found": len(found) if isinstance(found, list) else 0, "witness": said}


def _probes(turn: Turn) -> Iterator[tuple[str, float]]:
    """Give how long the last write of each node of the attempt took or has taken so far, in ms."""
    for name in turn.broken.nodes if turn.broken else ():
        told = events.latest("node.health", node=name)
        disks = told.data.get("disks") if told is not None and told.received_at >= turn.now - FRESH else None
        took = [disk.get("write_probe_ms") for disk in disks or () if isinstance(disk, Mapping)]
        known = [ms for ms in took if isinstance(ms, int | float)]
        if known:
            yield name, max(known)
