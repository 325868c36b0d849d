"""What the control plane asks of agents: the envelope and each kind's arguments.

No path, shell string or program travels in a command: the agent's own
configuration says what may be done and how.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from middlewatch_wire.shapes import Int, Name, Names, Rank


class Args(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of every command's arguments; a field the agent does not know is an error."""


class CollectArgs(Args):
    """Look at the live ranks of an attempt on this node, within `budget_s`."""

    run: Name
    attempt: Rank
    what: list[Literal["stacks", "collectives"]]
    budget_s: Annotated[float, Meta(gt=0, le=60)] = 3.0


class ResumeFrom(Args):
    """The checkpoint to start from; step 0 means from the beginning.

    `skip` are the first and the last step whose batches are left out after a rollback.
    """

    step: Annotated[int, Meta(ge=0)] = 0
    skip: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=2, max_length=2)] | None = None


class AttemptStartArgs(Args):
    """Launch attempt number `attempt` of a run on exactly these nodes."""

    run: Name
    attempt: Rank
    nodes: Names
    resume: ResumeFrom
    exclude: Names = []
    """Nodes that a scheduler must not put it on, nor any successor of it."""


class AttemptStopArgs(Args):
    """Stop an attempt: ask, wait `grace_s`, then kill."""

    run: Name
    attempt: Rank
    grace_s: Annotated[float, Meta(ge=0, le=600)] = 5.0


class CheckpointsScanArgs(Args):
    """Tell the state of the `newest` checkpoints of a run."""

    run: Name
    newest: Annotated[int, Meta(ge=1, le=100)] = 5


class RanksStopArgs(Args):
    """End the process trees of an attempt's ranks on this node: ask, wait `grace_s`, kill, and prove it.

    Without `ranks` all of them.
    """

    run: Name
    attempt: Rank
    grace_s: Annotated[float, Meta(ge=0, le=600)] = 5.0
    ranks: Annotated[list[Rank], Meta(max_length=1024)] | None = None


class RankFreezeArgs(Args):
    """Stop one rank's processes for a drill; they go on after `length_s`. No node allows it by default."""

    run: Name
    attempt: Rank
    rank: Rank
    length_s: Annotated[float, Meta(gt=0, le=3600)] = 600.0


class SwitchArgs(Args):
    """Arm a switch that the training loop polls: `save` saves and goes on, `kill` saves and ends.

    The command runs until a rank has acknowledged it, or its deadline disarms it.
    """

    run: Name
    attempt: Rank
    what: Literal["save", "kill"]


class CheckArgs(Args):
    """Run a check that the node's own configuration names, within `budget_s`."""

    check: Name
    budget_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0


class BundleArgs(Args):
    """Gather what a person needs to look into this node's part of an attempt; it stays on the node."""

    run: Name | None = None
    attempt: Rank | None = None


class RunArgs(Args):
    """Something about a run's job in the scheduler."""

    run: Name


class QueueArgs(Args):
    """Keep `count` successors of a run queued behind its running job; `exclude` holds for all of them."""

    run: Name
    count: Annotated[int, Meta(ge=0, le=10)] = 2
    exclude: Names = []


class NodesDrainArgs(Args):
    """Let the scheduler place nothing more on these nodes; the reason is marked as ours."""

    nodes: Names
    reason: Annotated[str, Meta(min_length=1, max_length=200)]


class NodesResumeArgs(Args):
    """Give back nodes that we drained; what a person drained stays as it is."""

    nodes: Names


COMMANDS: dict[str, type[Args]] = {
    "collect": CollectArgs,
    "attempt.start": AttemptStartArgs,
    "attempt.stop": AttemptStopArgs,
    "checkpoints.scan": CheckpointsScanArgs,
    "ranks.stop": RanksStopArgs,
    "rank.freeze": RankFreezeArgs,
    "switch.arm": SwitchArgs,
    "switch.disarm": SwitchArgs,
    "check.run": CheckArgs,
    "support.bundle": BundleArgs,
    "job.hold": RunArgs,
    "job.release": RunArgs,
    "job.queue": QueueArgs,
    "nodes.drain": NodesDrainArgs,
    "nodes.resume": NodesResumeArgs,
}
"""Every known kind of command and the type of its arguments."""


class Command(Struct, kw_only=True):
    """One leased command. It may be handed out again after `lease_s`: remember `command_id`."""

    command_id: str
    kind: str
    args: dict[str, Any]
    lease_s: Int | float
    deadline_ms: Int


class Commands(Struct, kw_only=True):
    """Answer of `GET /api/v1/commands`."""

    commands: list[Command] = []
