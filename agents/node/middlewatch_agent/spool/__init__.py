"""Events that wait for their acknowledgement."""

from middlewatch_agent.spool.spool import Flight, Spool
from middlewatch_agent.spool.store import Waiting, waiting

__all__ = ["Flight", "Spool", "Waiting", "waiting"]
