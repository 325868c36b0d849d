"""The one reducer of a run: signals in, state forward, findings out.

It is pure, so a worker may die anywhere and another goes on from the snapshot, and
a recorded night can be replayed on a virtual clock through exactly this code.

Call `sweep` only when every signal that is already durable has been observed: while
a backlog waits, age and silence would be those of the backlog, not of the run.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from controlplane.domain.detection import codec, faults, intake, maintenance, setback, sight, silence, view
from controlplane.domain.detection.detectors import DETECTORS, Detector
from controlplane.domain.detection.modes import Mode, mode_of, weaker
from controlplane.domain.detection.news import News
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import COMPLETED, RESTING, RunState
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal

SNAPSHOT_VERSION = 2

_WANTING: dict[str, list[Detector]] = defaultdict(list)
for _detector in DETECTORS:
    for _kind in _detector.kinds:
        _WANTING[_kind].append(_detector)


class RunMachine:
    """Judges one run; all times are seconds since the epoch."""

    def __init__(self, run: str, policy: RunPolicy, state: RunState | None = None) -> None:
        """Watch `run` under `policy`, from nothing or from a restored state."""
        self.policy = policy
        self._state = state or RunState(run=run)

    @property
    def run(self) -> str:
        """Give the name of the run."""
        return self._state.run

    def observe(self, signal: Signal, now: float) -> None:  # noqa: ARG002 - liveness rests on `received`
        """Take one signal in; twice or a little out of order makes no difference."""
        intake.take(self._state, signal, self.policy)
        if signal.run in (None, self.run):
            for detector in _WANTING.get(signal.kind, ()):
                detector.take(self._state, signal, self.policy)

    def sweep(self, now: float) -> list[Finding]:
        """Judge at `now`; give only findings that are new or have changed."""
        state, policy = self._state, self.policy
        setback.of_run(state, policy, now)
        found = self._finished(now)
        for detector in DETECTORS:
            if self._concerns(detector) and not self._rests(detector, now):
                found += detector.look(state, policy, now)
        state.sight.last_sweep = now
        return News(state.told).of(self._allowed(found))

    def due(self, now: float) -> float | None:
        """Give the earliest moment after `now` at which a sweep could say something new by itself, None for never."""
        state, policy = self._state, self.policy
        asked = [detector for detector in DETECTORS if self._concerns(detector)]
        moments = [moment for detector in asked if (moment := detector.due(state, policy, now)) is not None]
        return min((moment for moment in moments if moment > now), default=None)

    def awake(self, now: float) -> None:
        """Note that we watched up to `now`, although there was nothing to sweep."""
        self._state.sight.last_sweep = now

    def _concerns(self, detector: Detector) -> bool:
        """Say whether there is something that the detector judges: an attempt that has not completed."""
        attempt = self._state.attempt
        return detector.waiting if attempt is None else attempt.state != COMPLETED

    def _rests(self, detector: Detector, now: float) -> bool:
        state, policy = self._state, self.policy
        if mode_of(policy.modes, detector.id) is Mode.OFF:
            return True
        if detector.by_age and (sight.frozen(state.sight, now) or maintenance.rests(state, policy, now)):
            return True
        return detector.alone and silence.held(state, policy, now)

    def _allowed(self, found: list[Finding]) -> list[Finding]:
        """Mark each finding with how far its rule may go, and leave out what is switched off."""
        modes = self.policy.modes
        if not modes:
            return found
        marked = [replace(item, mode=weaker(item.mode, mode_of(modes, item.detector, item.rule))) for item in found]
        return [item for item in marked if item.mode != Mode.OFF]

    def rest(self, now: float) -> None:
        """Note that we stop the attempt ourselves: what it does from now on is no trouble.

        The detectors rest until the next attempt shows itself; only nodes that were
        silent already go on being judged.
        """
        attempt = self._state.attempt
        if attempt is not None and attempt.state != COMPLETED:
            attempt.state, attempt.rested_at = RESTING, now

    def go_on(self) -> None:
        """Note that nothing ends the attempt any more: it is judged by what it does, and by what it did meanwhile."""
        attempt = self._state.attempt
        if attempt is not None and attempt.state == RESTING and attempt.rested_at is not None:
            attempt.state, attempt.rested_at = intake.standing(attempt), None

    @property
    def high_water_step(self) -> int:
        """The furthest step that was believed."""
        return self._state.high_water_step

    def nodes(self) -> tuple[str, ...]:
        """Give the nodes whose own events the machine wants, the launcher's among them."""
        return tuple(sorted(self._state.nodes))

    def strangers(self) -> list[str]:
        """Give the run's nodes whose GPUs are not known: they said hello before the run was theirs."""
        attempt = self._state.attempt
        return faults.strangers(self._state.hardware, silence.members(attempt)) if attempt is not None else []

    def introduce(self, node: str, hardware: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
        """Tell what the fleet knows of a stranger."""
        faults.introduce(self._state.hardware, node, hardware, labels)

    def view(self, now: float | None = None) -> view.RunView:
        """Give what a page shows, at `now` or at the last sweep."""
        return view.make(self._state, self.policy, self._state.sight.last_sweep or 0.0 if now is None else now)

    def snapshot(self) -> dict[str, Any]:
        """Give the whole state in JSON types; `restore` of it goes on exactly the same."""
        return {"version": SNAPSHOT_VERSION, "state": codec.dump(self._state)}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], policy: RunPolicy, run: str = "") -> Self:
        """Go on from a snapshot; one that is empty or of another version begins anew."""
        if snapshot.get("version") != SNAPSHOT_VERSION:
            return cls(run, policy)
        state = codec.load(RunState, snapshot["state"])
        return cls(state.run, policy, state)

    def _finished(self, now: float) -> list[Finding]:
        """Take back what is still open about an attempt that ended well (methods 11.7)."""
        state = self._state
        if state.attempt is None or state.attempt.state != COMPLETED:
            return []
        why = f"run {state.run} had completed, so this was no trouble"
        return News(state.told).withdraw(run=state.run, now=now, why=why)
