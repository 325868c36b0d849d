"""Freeze one rank for a drill, for a while (R-15).

It hurts training on purpose, so no node allows it unless its own agent.toml names
`rank.freeze` among its commands. A frozen rank that nobody ended goes on by itself, also
where the agent died meanwhile, so a drill that is forgotten harms nobody for long.
"""

import signal

import msgspec
from middlewatch_wire.commands import RankFreezeArgs

from middlewatch_agent import thawing
from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.launcher.processes import signal_process
from middlewatch_agent.ranks.trees import Forest


def attach(context: AgentContext) -> None:
    """Let the agent carry out `rank.freeze`, where its settings allow it."""
    context.register_command("rank.freeze", Freezer(context))


class Freezer:
    """The handler of `rank.freeze`."""

    def __init__(self, context: AgentContext) -> None:
        """Look for ranks in the folder of this node's agent."""
        self._context = context

    def __call__(self, command: Command, /) -> Outcome:
        """Stop every process of the rank; its shim lives on and tells how it ends."""
        try:
            args = msgspec.convert(dict(command.args), RankFreezeArgs)
        except msgspec.ValidationError as error:
            return Outcome(state="refused", output_tail=str(error))
        found = Forest(self._context.state_dir, args.run, args.attempt, [args.rank]).living()
        if not found:
            return Outcome(state="failed", output_tail=f"rank {args.rank} does not live on this node")
        try:
            thawing.begin(found, args.length_s)
        except OSError as error:
            return Outcome(state="failed", output_tail=f"nothing was frozen, for nobody could end it: {error}")
        for process in found:
            signal_process(process.pid, process.start_ticks, signal.SIGSTOP)
        return Outcome(state="succeeded", data={"frozen": len(found), "length_s": args.length_s})
