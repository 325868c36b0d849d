"""Gather the sentences of one transaction and write them at its end.

A chronicle stream stays locked from its first sentence to the commit. Work on
one run touches the streams of incidents, of the run and of the fleet in any
order; writing them in one fixed order at the end means that two workers never
wait for each other in a circle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from controlplane.chronicle import actions as chronicle
from controlplane.chronicle.actions import Sentence

_ORDER = {"incident": 0, "run": 1, "fleet": 2}


@dataclass(slots=True)
class Book:
    """Sentences that wait for the end of the transaction; `now` is when they are written down.

    `whole` says that who opened the transaction makes all of it again when one of the keys is told elsewhere
    at the same moment.
    """

    now: datetime
    actor_kind: str = "system"
    actor: str = ""
    whole: bool = False
    _waiting: list[tuple[str, Sentence]] = field(default_factory=list)

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
        who = (actor_kind, actor) if actor_kind else (self.actor_kind, self.actor)
        kept = Sentence(
            kind=str(kind), sentence=sentence, at=at or self.now, actor_kind=who[0], actor=who[1], data=data, key=key
        )
        self._waiting.append((stream, kept))

    def write(self) -> None:
        """Tell everything kept so far, streams in the order incident, run, fleet."""
        waiting, self._waiting = self._waiting, []
        for stream, told in groupby(sorted(waiting, key=_place), key=itemgetter(0)):
            chronicle.tell_all(stream, [sentence for _, sentence in told], now=self.now, whole=self.whole)


def _place(kept: tuple[str, Sentence]) -> tuple[int, str]:
    subject = kept[0].partition(":")[0]
    return _ORDER.get(subject, len(_ORDER)), kept[0]
