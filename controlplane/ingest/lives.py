"""Bound how many lives an agent may claim.

Each life of an agent is a row that is kept for as long as its events are. One that
starts anew with every batch would fill the table and slow down every look at its node.
"""

from collections import OrderedDict

from controlplane.ingest.rate import RateLimit

PER_S, BURST = 0.2, 60.0
"""New lives of one node: more than an agent that dies at its start and is started again."""
KEPT = 8
"""Lives of a node that may speak in turn: the old one's last events, and two machines under one name."""
MAX_NODES = 20_000


class Lives:
    """The lives that spoke last for each node; `now` is in seconds on any steady clock."""

    def __init__(self) -> None:
        """Start knowing none."""
        self._new = RateLimit(PER_S, BURST)
        self._known: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def admit(self, node: str, incarnation: str, now: float) -> int | None:
        """Let a life speak; None when it may, else the whole seconds to wait."""
        known = self._known.setdefault(node, OrderedDict())
        if incarnation not in known and (wait_s := self._new.spend(node, now)) is not None:
            return wait_s
        known[incarnation] = None
        known.move_to_end(incarnation)
        while len(known) > KEPT:
            known.popitem(last=False)
        while len(self._known) > MAX_NODES:
            self._known.popitem(last=False)
        return None
