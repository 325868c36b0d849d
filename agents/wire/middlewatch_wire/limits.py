"""Every bound that the wire format sets, in one place.

Whatever arrives is untrusted: a compromised or broken agent may send anything
at all, and the control plane has to stay up for the others. Both sides read
the same numbers, so an agent never builds a batch that must be refused.
"""

MAX_BODY_BYTES = 1 << 20
"""Body of a request as it travels (compressed or not)."""
MAX_UNPACKED_BYTES = 8 << 20
"""Body after decompression."""
MAX_EVENTS = 1000
"""Events of one batch."""
MAX_EVENT_BYTES = 64 << 10
"""JSON text of one event's `data`."""
MAX_STRING = 32 << 10
"""Characters of one string inside `data`."""
MAX_ITEMS = 4096
"""Items of one list inside `data`."""
MAX_DEPTH = 16
"""Levels of nesting inside free-form parts of `data`."""
MAX_NAME = 100
"""Characters of a node's or a run's name."""
MAX_KIND = 64
"""Characters of an event kind."""
MAX_INCARNATION = 64
"""Characters of the name of one life of an agent."""
MAX_SEQ = (1 << 53) - 1
"""Highest sequence number: exact in every JSON reader."""
MAX_AT_MS = 253_402_300_799_999
"""Last millisecond of the year 9999: what a timestamp can still show."""
MAX_INT = (1 << 63) - 1
"""Integers are those of PostgreSQL's bigint."""
MIN_INT = -(1 << 63)
MAX_INT4 = (1 << 31) - 1
"""Ranks and attempts are those of PostgreSQL's integer."""
