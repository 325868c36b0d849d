"""Let all ranks take a switch after the same step, at almost no cost.

A save is collective: if one rank began it a step before the others, all would wait
for ever. The ranks of a training agree anyway once per step, when they exchange
gradients, so what rank 0 writes into the group's store after one step is there for
every rank after the next. So ranks meet after steps that are known beforehand,
about twice a second: each reads what rank 0 wrote at the meeting before, namely
which switch to take now and when to meet after the next meeting. Between meetings
a step costs one comparison.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MEET_S = 0.5
MAX_GAP = 1000
"""Steps between two meetings at most, however fast the steps are."""


class Meetings:
    """One rank's part in the meetings of its attempt.

    The training must exchange something among all ranks in every step, and `attend`
    must be called after every step on every rank.
    """

    def __init__(
        self, store: Any, *, leads: bool, name: str, look: Callable[[], str | None], clock: Callable[[], float]
    ) -> None:
        """Meet in `store` under `name`; the rank that `leads` says what `look` finds."""
        self._store = store
        self._leads = leads
        self._name = name
        self._look = look
        self._clock = clock
        self._number = 0
        self._due: int | None = None
        self._last: tuple[float, int] | None = None

    def attend(self, step: int) -> str | None:
        """Give the switch that all ranks take after this step, if there is a meeting and it says so."""
        if self._store is None or (self._due is not None and step < self._due):
            return None
        try:
            plan = self._plan(step)
            if plan is None:
                return None
            if self._leads:
                self._announce(step, plan["then"])
        except Exception:  # noqa: BLE001 (the store went away with rank 0: the training has other troubles)
            self._store = None
            return None
        self._number, self._due = self._number + 1, plan["then"]
        return plan["take"] if isinstance(plan["take"], str) else None

    def _plan(self, step: int) -> dict[str, Any] | None:
        """What was announced for this meeting. None: not yet, which a training that exchanges gradients never sees."""
        if self._number == 0:
            return {"take": None, "then": step + 1}
        key = self._key(self._number)
        if not self._store.check([key]):
            return None
        plan: dict[str, Any] = json.loads(self._store.get(key))
        return plan

    def _announce(self, step: int, then: int) -> None:
        plan = {"take": self._look(), "then": then + self._gap(step)}
        self._store.set(self._key(self._number + 1), json.dumps(plan))
        with suppress(Exception):  # not every store can forget
            self._store.delete_key(self._key(self._number - 1))

    def _gap(self, step: int) -> int:
        """Steps until the meeting after the next, by the pace since the last one."""
        now, last = self._clock(), self._last
        self._last = (now, step)
        if last is None or step <= last[1]:
            return 1
        pace_s = (now - last[0]) / (step - last[1])
        return max(1, min(MAX_GAP, round(MEET_S / pace_s))) if pace_s > 0 else 1

    def _key(self, number: int) -> str:
        return f"{self._name}/{number}"
