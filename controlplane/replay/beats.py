"""Thin declared beats out: alike as they are, only the newest of a node says anything.

While nothing is open, a node's beats are heard as often as clocks are measured; what
came between is left out but for the newest, which is heard before anybody judges.
"""

from collections.abc import Iterable

from controlplane.replay.expand import Arrival

HEARD_EVERY_S = 15.0


class Beats:
    """The beats of all nodes that were not heard yet; `skipped` counts those that never will be."""

    def __init__(self) -> None:
        """Begin with none."""
        self._heard: dict[str, float] = {}
        self._newest: dict[str, Arrival] = {}
        self.skipped = 0

    def due(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """Give the beats among `arrivals` whose nodes were not heard for a while; keep the others."""
        found = []
        for arrival in arrivals:
            node = arrival.node
            self.skipped += self._newest.pop(node, None) is not None
            if arrival.t - self._heard.get(node, -HEARD_EVERY_S) >= HEARD_EVERY_S:
                self._heard[node] = arrival.t
                found.append(arrival)
            else:
                self._newest[node] = arrival
        return found

    def newest(self, arrivals: Iterable[Arrival] = ()) -> list[Arrival]:
        """Give what was kept, oldest first, and forget it; a node that speaks among `arrivals` needs no older beat."""
        speak = {arrival.node for arrival in arrivals}
        kept = [arrival for node, arrival in self._newest.items() if node not in speak]
        self.skipped += len(self._newest) - len(kept)
        self._newest = {}
        self._heard.update((one.node, one.t) for one in kept)
        return sorted(kept, key=lambda one: one.t)
