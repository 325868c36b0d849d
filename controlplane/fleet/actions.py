"""The only writer of the fleet's tables; its parts live in modules of their own."""

from controlplane.fleet.commands import expire_commands, lease_commands, recall_commands, record_result, send_command
from controlplane.fleet.enrolment import create_enrolment_token, enrol, revoke, rotate
from controlplane.fleet.nodes import hello, hold_node, move_node, seen, set_probation
from controlplane.fleet.scheduler import forget_old, note_jobs, note_nodes

__all__ = [
    "create_enrolment_token",
    "enrol",
    "expire_commands",
    "forget_old",
    "hello",
    "hold_node",
    "lease_commands",
    "move_node",
    "note_jobs",
    "note_nodes",
    "recall_commands",
    "record_result",
    "revoke",
    "rotate",
    "seen",
    "send_command",
    "set_probation",
]
