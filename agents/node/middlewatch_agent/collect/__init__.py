"""Look at the ranks of an attempt on this node while they still hang.

All ranks are asked at once and within a budget, for the answer is wanted before
they are killed. A rank that does not answer is a result: of ranks that all wait
for one another, the one that cannot speak is the first suspect.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from middlewatch_wire.commands import CollectArgs

from middlewatch_agent.collect import inspect
from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.ranks import status
from middlewatch_agent.ranks.status import RankStatus

MAX_RANKS = 64
"""Ranks of one node that are looked at."""


def attach(context: AgentContext) -> None:
    """Let the agent carry out `collect`."""
    context.register_command("collect", Collector(context))
    context.declare("collect")


class Collector:
    """The handler of the `collect` command."""

    def __init__(self, context: AgentContext) -> None:
        """Report through `context`."""
        self._context = context

    def __call__(self, command: Command, /) -> Outcome:
        """Look at every live rank at once; what was found leaves as events, who answered as the result."""
        try:
            args = msgspec.convert(dict(command.args), CollectArgs)
        except msgspec.ValidationError as error:
            return Outcome(state="refused", output_tail=str(error))
        ranks = list(living(self._context, args.run, args.attempt))
        deadline = time.monotonic() + args.budget_s
        with ThreadPoolExecutor(max_workers=max(1, len(ranks)), thread_name_prefix="collect") as pool:
            answers = list(pool.map(lambda rank: self._look(rank, args, deadline), ranks))
        return Outcome(data={"ranks": {str(rank.rank): found for rank, found in zip(ranks, answers, strict=True)}})

    def _look(self, rank: RankStatus, args: CollectArgs, deadline: float) -> dict[str, object]:
        found = inspect.look(rank, stacks="stacks" in args.what, collectives="collectives" in args.what, until=deadline)
        for kind, data in found.events():
            event = {"kind": kind, "run": rank.run, "attempt": rank.attempt, "rank": rank.rank, "data": data}
            self._context.emit(event, urgent=True)
        return {"proc_state": found.proc_state, "answered": found.answered}


def living(context: AgentContext, run: str, attempt: int) -> Iterator[RankStatus]:
    """Ranks of an attempt that live here: by their status files, and those of jobs without hooks."""
    known = {rank.rank: rank for rank in live_ranks(context.state_dir / "ranks", run, attempt)}
    for rank in context.found_ranks():
        if (rank.run, rank.attempt) == (run, attempt) and len(known) < MAX_RANKS:
            known.setdefault(rank.rank, rank)
    yield from known.values()


def live_ranks(folder: Path, run: str, attempt: int) -> Iterator[RankStatus]:
    """Ranks of an attempt whose end nobody has written down, at most `MAX_RANKS`."""
    seen = 0
    for path in sorted(folder.glob("*.json")):
        try:
            rank = status.read(path)
        except ValueError:
            continue
        if rank and (rank.run, rank.attempt) == (run, attempt) and not rank.ended and seen < MAX_RANKS:
            seen += 1
            yield rank
