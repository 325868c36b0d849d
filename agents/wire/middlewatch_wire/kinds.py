"""The `data` of every event kind, as typed structures.

Agents of different ages talk to one control plane, so every field may be
missing unless the event says nothing without it, and a field nobody knows is
ignored. Units stand in the names; times are milliseconds since the epoch (UTC).
A number that is not finite travels as `"nan"`, `"inf"` or `"-inf"`.
"""

from middlewatch_wire.of_nodes import NodeHealth, NodeHeartbeat, NodeHello, NodeLog
from middlewatch_wire.of_ranks import (
    RankCollective,
    RankExited,
    RankLog,
    RankPhase,
    RankResume,
    RankStack,
    RankStarted,
    RankStep,
    RankWindow,
)
from middlewatch_wire.of_runs import (
    AttemptExited,
    AttemptStarted,
    CapacityNotice,
    Checkpoint,
    CheckResult,
    CommandResult,
    Quorum,
    SchedulerJob,
    SchedulerNode,
)
from middlewatch_wire.shapes import Data

KINDS: dict[str, type[Data]] = {
    "node.hello": NodeHello,
    "node.heartbeat": NodeHeartbeat,
    "node.health": NodeHealth,
    "node.log": NodeLog,
    "rank.started": RankStarted,
    "rank.exited": RankExited,
    "rank.phase": RankPhase,
    "rank.step": RankStep,
    "rank.window": RankWindow,
    "rank.log": RankLog,
    "rank.stack": RankStack,
    "rank.collective": RankCollective,
    "rank.resume": RankResume,
    "attempt.started": AttemptStarted,
    "attempt.exited": AttemptExited,
    "checkpoint": Checkpoint,
    "scheduler.job": SchedulerJob,
    "scheduler.node": SchedulerNode,
    "capacity.notice": CapacityNotice,
    "check.result": CheckResult,
    "quorum": Quorum,
    "command.result": CommandResult,
}
"""Every known kind and the type of its `data`."""
