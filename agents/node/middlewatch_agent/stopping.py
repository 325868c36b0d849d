"""End the process trees of ranks on this node, and prove that they are dead (R-03).

The last resort when the launcher cannot: whoever holds a dead job's devices keeps
the next attempt from them. The shim goes last, for it writes down how its rank
ended. Proof of death is that no process of the same pid and start time is left.
"""

import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from middlewatch_wire.commands import RanksStopArgs

from middlewatch_agent.collect.kernel import STOPPED, WORDS
from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.launcher.processes import signal_process
from middlewatch_agent.ranks.procfs import Process
from middlewatch_agent.ranks.trees import GONE, Forest, Tree

LOOK_S = 0.03
KILL_WAIT_S = 5.0
SHIM_WAIT_S = 1.0
MAX_NAMED = 50
"""Processes that one answer names."""


def attach(context: AgentContext) -> None:
    """Let the agent carry out `ranks.stop`."""
    context.register_command("ranks.stop", Stopper(context), repeatable=True)


class Stopper:
    """The handler of `ranks.stop`."""

    def __init__(self, context: AgentContext) -> None:
        """Look for ranks in the folder of this node's agent."""
        self._context = context

    def __call__(self, command: Command, /) -> Outcome:
        """End what lives; to ask again for what is dead succeeds."""
        try:
            args = msgspec.convert(dict(command.args), RanksStopArgs)
        except msgspec.ValidationError as error:
            return Outcome(state="refused", output_tail=str(error))
        found = self._context.found_ranks
        forest = Forest(self._context.state_dir, args.run, args.attempt, args.ranks, found)
        end(forest, args.grace_s)
        return self._outcome(forest)

    def _outcome(self, forest: Forest) -> Outcome:
        left = [*forest.living(), *forest.shims()]
        survivors = [self._named(forest, process) for process in left[:MAX_NAMED]]
        ranks = {str(rank): _told(tree) for rank, tree in sorted(forest.trees.items())}
        data = {"stopped": not left, "ranks": ranks, "survivors": survivors}
        tail = "; ".join(f"rank {one['rank']}: process {one['pid']} is {one['words']}" for one in survivors)
        return Outcome(state="failed" if left else "succeeded", output_tail=tail, data=data)

    def _named(self, forest: Forest, process: Process) -> dict[str, Any]:
        key = (process.pid, process.start_ticks)
        rank = next((tree.rank for tree in forest.trees.values() if key in tree.states), None)
        return {"rank": rank, "node": self._context.node, "pid": process.pid, "start_ticks": process.start_ticks,
                "proc_state": process.state, "words": WORDS.get(process.state, "unknown")}  # fmt: skip


def end(forest: Forest, grace_s: float) -> None:
    """Ask with SIGTERM, force with SIGKILL; a stopped process cannot hear the first, so for such alone nobody waits."""
    _signal(forest.living(), signal.SIGTERM)
    _until(lambda: all(process.state in STOPPED for process in forest.living()), grace_s)

    def killed() -> bool:
        left = forest.living()
        _signal(left, signal.SIGKILL)
        return not left

    _until(killed, KILL_WAIT_S)
    _until(lambda: not forest.shims(), SHIM_WAIT_S)
    _signal(forest.shims(), signal.SIGKILL)
    _until(lambda: not forest.shims(), SHIM_WAIT_S)


def _signal(found: Iterable[Process], number: signal.Signals) -> None:
    for process in found:
        signal_process(process.pid, process.start_ticks, number)


def _until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _told(tree: Tree) -> dict[str, Any]:
    """How a rank's processes were found and what became of them; zombies are dead but told, nobody buried them."""
    began = [first for first, _ in tree.states.values()]
    ended = [last for _, last in tree.states.values()]
    return {
        "processes": len(ended),
        "ended": sum(state in GONE for state in ended),
        "zombies": ended.count("Z"),
        "stopped_before": sum(state in STOPPED for state in began),
        "stuck_before": began.count("D"),
    }
