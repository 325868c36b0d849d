"""Gather the sentences of one transaction and write them at its end.

A chronicle stream stays locked from its first sentence to the commit. Work on
one run touches the streams of incidents, of the run and of the fleet in any
order; writing them in one fixed order at the end means that two workers never
wait for each other in a circle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.chronicle import actions as chronicle

_ORDER = {"incident": 0, "run": 1, "fleet": 2}


@dataclass(slots=True)
class Book:
    """Sentences that wait for the end of the transaction; `now` is when they are written down."""

    now: datetime
    actor_kind: str = "system"
    actor: str = ""
    _waiting: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)

    def tell(
        self,
        stream: str,
        kind: str,
        sentence: str,
        *,
        key: str | None = None,
        at: datetime | None = None,
        data: Mapping[str, Any] | None = None,
        actor_kind: str = "",
        actor: str = "",
    ) -> None:
        """Keep one sentence for `write`; without `at` it happened now, without an actor it is the book's."""
        if actor_kind:
            who = {"actor_kind": actor_kind, "actor": actor}
        else:
            who = {"actor_kind": self.actor_kind, "actor": self.actor}
        self._waiting.append((stream, kind, sentence, {"at": at or self.now, "data": data, "key": key, **who}))

    def write(self) -> None:
        """Tell everything kept so far, streams in the order incident, run, fleet."""
        waiting, self._waiting = self._waiting, []
        for stream, kind, sentence, details in sorted(waiting, key=_place):
            chronicle.tell(stream, str(kind), sentence, now=self.now, **details)


def _place(entry: tuple[str, str, str, dict[str, Any]]) -> tuple[int, str]:
    subject = entry[0].partition(":")[0]
    return _ORDER.get(subject, len(_ORDER)), entry[0]
