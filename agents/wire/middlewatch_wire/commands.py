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


class AttemptStopArgs(Args):
    """Stop an attempt: ask, wait `grace_s`, then kill."""

    run: Name
    attempt: Rank
    grace_s: Annotated[float, Meta(ge=0, le=600)] = 5.0


class CheckpointsScanArgs(Args):
    """Tell the state of the `newest` checkpoints of a run."""

    run: Name
    newest: Annotated[int, Meta(ge=1, le=100)] = 5


COMMANDS: dict[str, type[Args]] = {
    "collect": CollectArgs,
    "attempt.start": AttemptStartArgs,
    "attempt.stop": AttemptStopArgs,
    "checkpoints.scan": CheckpointsScanArgs,
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
