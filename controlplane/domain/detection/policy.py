"""Every threshold of the detectors and guards of a run, in one place with its source.

A run overrides single fields by its stored settings; whatever is not named keeps
its default, and a page shows each value beside where its reason is written down.
The unit stands in the name.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from controlplane.domain.detection import modes as rule_modes
from controlplane.domain.errors import Invalid

DAY_S = 86_400.0

PAGE = "docs/thresholds.md"
HANG = "Hang"
PHASES = "Phases"
SILENCE = "Silence"
CRASH = "Crash"
LAUNCHES = "Launches together"
SLOW = "Slow run"
MACHINES = "Machines and storage"
SAVES = "Checkpoints"
GUARDS = "Restarts and guards"
PEOPLE = "People"
QUEUE = "Queue"
LOSS = "Loss"
"""The page that says where the defaults come from, and its sections."""


def _setting(default: float | None, low: float, high: float, source: str, words: str) -> Any:
    """Declare one field with its range (inclusive), the section that its default comes from, and its meaning."""
    return field(default=default, metadata={"low": low, "high": high, "source": f"{PAGE}, {source}", "words": words})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """Thresholds for one run; `source` names a section of docs/thresholds.md."""

    hang_k: float = _setting(3.0, 1.5, 20, HANG, "a step may last this many medians")
    hang_k_max: float = _setting(6.0, 1.5, 40, HANG, "how far false suspicions may raise that factor")
    hang_k_growth: float = _setting(1.25, 1.0, 4, HANG, "growth of the factor after a false suspicion")
    hang_k_decay_s: float = _setting(7 * DAY_S, 1, 365 * DAY_S, HANG, "time until a raised factor is forgotten")
    hang_floor_s: float = _setting(60.0, 0.5, DAY_S, HANG, "shortest budget of a step, before delta_s")
    hang_cap_s: float = _setting(1800.0, 1, DAY_S, HANG, "longest budget of a step")
    delta_s: float = _setting(5.0, 0, 60, HANG, "poll period plus the usual lag of ingest")
    window: int = _setting(128, 8, 4096, HANG, "how many step times the median is taken from")
    warmup_steps: int = _setting(5, 0, 1000, HANG, "first steps of an attempt that do not count")
    min_samples: int = _setting(20, 1, 4096, HANG, "step times needed before the median is trusted")
    early_deadline_s: float = _setting(600.0, 1, DAY_S, HANG, "budget of a step until then")
    declared_step_s: float | None = _setting(None, 0.001, DAY_S, HANG, "step time as declared by the owner")
    launch_deadline_s: float = _setting(300.0, 1, DAY_S, PHASES, "launch to the first sign of a rank")
    init_deadline_s: float = _setting(300.0, 1, DAY_S, PHASES, "rendezvous and communicator set-up")
    restore_quiet_s: float = _setting(120.0, 1, DAY_S, PHASES, "restore without one more byte")
    restore_slow_share: float = _setting(
        0.10, 0, 1, PHASES, "bytes of a restore slower than this share of the usual rate are none"
    )
    restore_floor_s: float = _setting(600.0, 1, DAY_S, PHASES, "restore that reports no bytes at all")
    first_step_floor_s: float = _setting(900.0, 1, DAY_S, PHASES, "compilation and first step")
    first_step_cap_s: float = _setting(3600.0, 1, DAY_S, PHASES, "longest compilation and first step")
    save_floor_s: float = _setting(120.0, 1, DAY_S, PHASES, "blocking save")
    eval_part_floor_s: float = _setting(60.0, 0.5, DAY_S, PHASES, "part of an evaluation that reports parts")
    eval_floor_s: float = _setting(600.0, 1, DAY_S, PHASES, "evaluation that reports no parts")
    reload_floor_s: float = _setting(600.0, 1, DAY_S, PHASES, "reshuffle or restart of the data loader")
    idle_deadline_s: float = _setting(1800.0, 1, 30 * DAY_S, PHASES, "drain or idle without a declared end")
    heartbeat_s: float = _setting(5.0, 0.1, 600, SILENCE, "period of the agents' heartbeats")
    silence_s: float = _setting(30.0, 0.5, 3600, SILENCE, "a node is silent after so long without a word")
    silence_hold_s: float = _setting(60.0, 0, 3600, SILENCE, "from silent to lost while the run stalls")
    telemetry_ticket_s: float = _setting(300.0, 1, DAY_S, SILENCE, "silence beside an advancing run until it is told")
    maintenance_grace_s: float = _setting(
        300.0, 0, DAY_S, SILENCE, "from the declared end of maintenance until it is told that nodes are missing"
    )
    lag_floor_s: float = _setting(60.0, 1, DAY_S, SILENCE, "steps that arrive later than this are late")
    lag_told_s: float = _setting(300.0, 1, DAY_S, SILENCE, "only late steps for so long are told")
    burst_s: float = _setting(60.0, 1, 3600, SILENCE, "nodes silent within so long have one cause")
    hold_share: float = _setting(0.10, 0, 1, SILENCE, "share of silent nodes above which nothing is judged")
    hold_floor: int = _setting(2, 1, 1000, SILENCE, "as many silent nodes never hold")
    blind_s: float = _setting(30.0, 1, 3600, SILENCE, "no word from any node: we are blind")
    observe_s: float = _setting(120.0, 0, 3600, SILENCE, "watching again, without verdicts from silence or age")
    settle_s: float = _setting(1.0, 0, 60, CRASH, "how long a crash gathers its companions' reports")
    no_exit_s: float = _setting(30.0, 1, DAY_S, CRASH, "survivors of a crash that do not end")
    no_exit_local_s: float = _setting(3.0, 0.5, DAY_S, CRASH, "the same where our own launcher runs it")
    scheduler_word_s: float = _setting(
        15.0, 0, 600, CRASH, "how long a scheduler may take to say that it ended the ranks itself"
    )
    stagnation_s: float = _setting(7200.0, 60, 30 * DAY_S, LAUNCHES, "no new furthest step for so long")
    fruitless_launches: int = _setting(3, 1, 20, LAUNCHES, "launches without durable progress in a row")
    same_step_steps: int = _setting(2, 0, 100, LAUNCHES, "steps that failures at the same step may lie apart")
    poison_steps: int = _setting(20, 1, 10_000, LAUNCHES, "a failure so soon after a restore speaks against it")
    poison_s: float = _setting(600.0, 1, DAY_S, LAUNCHES, "the same in seconds; the longer of the two counts")
    slow_k_share: float = _setting(0.025, 0.001, 1, SLOW, "a step slower by less than this share never counts")
    slow_h_sigmas: float = _setting(8.0, 1, 100, SLOW, "height of the sum of the excess at which a run is slow")
    slow_notice_k_share: float = _setting(0.0125, 0.001, 1, SLOW, "the same for small losses, only told")
    slow_notice_h_sigmas: float = _setting(10.0, 1, 100, SLOW, "height for small losses")
    slow_sigma_share: float = _setting(0.005, 0.0001, 1, SLOW, "least scatter of step times that is believed")
    slow_window: int = _setting(512, 60, 4096, SLOW, "how many step times the usual time is taken from")
    slow_min_samples: int = _setting(60, 20, 4096, SLOW, "step times needed before slowness is judged")
    slow_confirm_steps: int = _setting(10, 2, 1000, SLOW, "slow steps until a slow run is confirmed")
    slow_least_s: float = _setting(60.0, 0, DAY_S, SLOW, "a run slow for less time is not told")
    slow_back_share: float = _setting(0.01, 0.001, 1, SLOW, "within this share of the usual time a run is well")
    slow_urgent_share: float = _setting(0.10, 0.01, 10, SLOW, "above this share slowness is critical")
    slow_rank_ratio: float = _setting(1.02, 1.001, 10, SLOW, "compute time over its peers' that marks a rank")
    slow_rank_z: float = _setting(6.0, 2, 100, SLOW, "robust standard deviations that mark a rank")
    slow_rank_windows: int = _setting(3, 1, 8, SLOW, "windows in a row a rank must stand out in to be named")
    ecc_settle_s: float = _setting(
        20.0, 0, 600, MACHINES, "a counter of memory errors waits so long for a line that explains it"
    )
    probe_slow_ms: float = _setting(5000.0, 10, 3_600_000, MACHINES, "a write probe above it is slow")
    storage_quiet_s: float = _setting(
        900.0, 10, DAY_S, MACHINES, "without any word of a stalled storage for so long it is tried again"
    )
    room_share: float = _setting(0.8, 0.1, 1, MACHINES, "a path of which so much is used is nearly full")
    room_hours: float = _setting(48.0, 0, 10_000, MACHINES, "a path that is full within so long is told")
    flap_s: float = _setting(10.0, 0.5, 3600, MACHINES, "a port that comes back within so long has flapped")
    flap_limit: int = _setting(5, 2, 1000, MACHINES, "as many flaps of a port in a day are told")
    testimony_s: float = _setting(900.0, 1, DAY_S, MACHINES, "what machines said so long before a stop is evidence")
    checkpoint_every_steps: int | None = _setting(
        None, 1, 10**9, SAVES, "steps between saves, as declared; learned when left out"
    )
    checkpoint_overdue_intervals: float = _setting(
        1.5, 1, 100, SAVES, "intervals without a whole save that are critical"
    )
    restart_capacity: int = _setting(4, 1, 100, GUARDS, "restarts that may follow each other at once")
    restart_refill_s: float = _setting(1800.0, 1, 30 * DAY_S, GUARDS, "time until one restart is earned back")
    backoff_s: float = _setting(30.0, 0, DAY_S, GUARDS, "pause before a restart after a fruitless one")
    backoff_cap_s: float = _setting(1800.0, 0, DAY_S, GUARDS, "longest such pause")
    backoff_reset_s: float = _setting(
        1800.0, 0, DAY_S, GUARDS, "a restart that trained so long and saved once ends the growth of the pauses"
    )
    breaker_window_s: float = _setting(3600.0, 60, DAY_S, GUARDS, "the breaker counts what happened within it")
    breaker_failures: int = _setting(3, 1, 1000, GUARDS, "executions that fail within it until the breaker opens")
    breaker_empties: int = _setting(2, 1, 1000, GUARDS, "times that all restarts were spent until it opens")
    finding_age_s: float = _setting(21_600.0, 60, 30 * DAY_S, GUARDS, "older findings are judged by a person")
    back_checkpoints: int = _setting(2, 0, 100, GUARDS, "distrusted checkpoints passed over without a person")
    back_s: float = _setting(DAY_S, 60, 30 * DAY_S, GUARDS, "work given up for them without a person")
    max_share: float = _setting(0.10, 0, 1, GUARDS, "share of a run's nodes that may be replaced unasked")
    same_failures: int = _setting(2, 1, 20, GUARDS, "equal failures without progress until a person is asked")
    rung_tries: int = _setting(2, 1, 20, GUARDS, "fruitless restarts of one kind until a person is asked")
    blast_window_s: float = _setting(600.0, 1, DAY_S, GUARDS, "nodes left out within so long count together")
    node_rest_s: float = _setting(600.0, 0, DAY_S, GUARDS, "automation moves a node at most once in so long")
    approval_s: float = _setting(900.0, 30, 7 * DAY_S, PEOPLE, "a question to a person lapses after so long")
    two_person_share: float = _setting(
        0.25, 0, 1, PEOPLE, "leaving out more than this share of the fleet needs two people; one node never does"
    )
    nodes_least: int | None = _setting(
        None, 1, 10_000, GUARDS, "fewest nodes the run can train on; unset: exactly those it wants"
    )
    drift_accept_steps: int = _setting(100, 1, 10**6, LAUNCHES, "steps after which a change is accepted")
    queue_pending_s: float = _setting(600.0, 1, 30 * DAY_S, QUEUE, "a job that waits under a reservation")
    queue_critical_s: float = _setting(1800.0, 1, 30 * DAY_S, QUEUE, "such a wait that is critical")
    queue_successors: int = _setting(2, 0, 100, QUEUE, "jobs that should stand behind the running one")
    queue_end_s: float = _setting(DAY_S, 1, 30 * DAY_S, QUEUE, "warning before an allocation ends")
    loss_window: int = _setting(200, 20, 4096, LOSS, "losses that the usual loss is taken from")
    loss_min_samples: int = _setting(50, 5, 4096, LOSS, "losses needed before one is judged")
    loss_sigma_floor: float = _setting(0.005, 0, 1, LOSS, "smallest spread, as a share of the usual loss")
    loss_watch_sigma: float = _setting(6.0, 1, 1000, LOSS, "spreads above usual with a high gradient norm")
    loss_grad_factor: float = _setting(5.0, 1, 1000, LOSS, "gradient norm in medians that agrees with a spike")
    loss_alarm_sigma: float = _setting(10.0, 1, 1000, LOSS, "spreads above usual that are a spike alone")
    loss_watch_steps: int = _setting(50, 1, 10_000, LOSS, "steps that a spike may take to heal")
    loss_healed_sigma: float = _setting(2.0, 0, 100, LOSS, "spreads above usual at which a spike has healed")
    loss_healed_steps: int = _setting(10, 1, 1000, LOSS, "steps whose median says that it has healed")
    loss_scale_floor: float = _setting(1.0, 0, 2**32, LOSS, "the smallest loss scale of the trainer")
    loss_scale_times: int = _setting(3, 1, 50, LOSS, "steps at that floor within 50 that are an alarm")
    loss_drift_sigma: float = _setting(3.0, 0.5, 1000, LOSS, "spreads of a slow rise")
    loss_drift_steps: int = _setting(200, 50, 4096, LOSS, "steps over which a slow rise is measured")
    loss_drift_median: int = _setting(50, 5, 4096, LOSS, "last losses whose median has risen")
    loss_below_sigma: float = _setting(10.0, 1, 1000, LOSS, "spreads below usual that are not plausible")
    loss_floor: float | None = _setting(None, -1e9, 1e9, LOSS, "no loss below this is plausible")
    loss_region_steps: int = _setting(1000, 1, 10**9, LOSS, "rollbacks within so many steps are one region")
    loss_reorder_s: float = _setting(10.0, 0, 600, LOSS, "how long a step waits for a late one before it")
    modes: Mapping[str, str] = field(default_factory=dict)
    """Rule to mode (domain.detection.modes); a rule that is not named acts."""

    def __post_init__(self) -> None:
        """Refuse combinations that no single range can catch."""
        if self.hang_floor_s > self.hang_cap_s:
            raise Invalid("hang_floor_s", "is above hang_cap_s")
        if self.delta_s >= self.hang_floor_s:
            raise Invalid("delta_s", "must be below hang_floor_s")
        if self.slow_min_samples > self.slow_window:
            raise Invalid("slow_min_samples", "is above slow_window")
        if self.min_samples > self.window:
            raise Invalid("min_samples", "is above window")
        if self.first_step_floor_s > self.first_step_cap_s:
            raise Invalid("first_step_floor_s", "is above first_step_cap_s")

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, Any]) -> Self:
        """Make a policy from a run's stored settings; raise `Invalid` naming the field."""
        known = {item.name: item for item in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in overrides.items():
            if name not in known:
                raise Invalid(name, "is not a setting of a run")
            if name == "modes":
                values[name] = rule_modes.checked(value)
                continue
            values[name] = _checked(name, value, known[name].type, known[name].metadata)
        return cls(**values)

    def describe(self) -> list[dict[str, Any]]:
        """Give each setting as `{name, value, default, low, high, source, words}`."""
        return [
            {"name": item.name, "value": getattr(self, item.name), "default": item.default, **item.metadata}
            for item in fields(self)
            if item.metadata
        ]


def _checked(name: str, value: Any, kind: Any, bounds: Mapping[str, Any]) -> float | None:
    if value is None and kind in (float | None, int | None):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Invalid(name, "must be a finite number")
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(name, "must be a finite number")
    if kind in (int, int | None) and isinstance(value, float) and not value.is_integer():
        raise Invalid(name, "must be a whole number")
    if not bounds["low"] <= value <= bounds["high"]:
        raise Invalid(name, f"must be between {bounds['low']:g} and {bounds['high']:g}")
    return int(value) if kind in (int, int | None) else float(value)
