"""Event vocabulary and codec that agents and control plane share (wire version 1)."""

from middlewatch_wire.codec import Decoded, Malformed, Received, Rejected, decode_batch, encode_batch
from middlewatch_wire.commands import COMMANDS, Command, Commands
from middlewatch_wire.events import WIRE_VERSION, AgentIdentity, Batch, Event, make_data, make_event
from middlewatch_wire.kinds import KINDS

__all__ = [
    "COMMANDS",
    "KINDS",
    "WIRE_VERSION",
    "AgentIdentity",
    "Batch",
    "Command",
    "Commands",
    "Decoded",
    "Event",
    "Malformed",
    "Received",
    "Rejected",
    "decode_batch",
    "encode_batch",
    "make_data",
    "make_event",
]
