"""Take in what a launch declares and what its ranks say about themselves (D-15, D-16)."""

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.domain.detection import reading
from controlplane.domain.detection.launch_state import Launched
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_NODES, MAX_RANKS, RunState
from controlplane.domain.signals import Signal

MAX_ENTRIES = 128
MAX_VALUE = 80
DURABLE = frozenset({"complete", "verified"})

SIZES: Mapping[str, tuple[str, ...]] = {
    "count": ("count", "total", "parameters", "n_parameters"),
    "global_batch": ("global_batch", "global_batch_size"),
    "micro_batch": ("micro_batch", "micro_batch_size"),
    "dp": ("dp", "data_parallel", "data_parallel_size"),
    "tp": ("tp", "tensor_parallel", "tensor_parallel_size"),
    "pp": ("pp", "pipeline_parallel", "pipeline_parallel_size"),
    "nodes": ("nodes", "num_nodes", "nnodes"),
    "gpus_per_node": ("gpus_per_node", "nproc_per_node"),
    "hidden": ("hidden", "hidden_size"),
    "heads": ("heads", "num_attention_heads"),
}
"""The declared sizes that are checked, each with the names that trainers give it."""


def take(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in a signal of the newest attempt that was heard of."""
    attempt = signal.attempt
    if attempt is None or signal.run != state.run or attempt < state.launch.now.attempt:
        return
    if attempt > state.launch.now.attempt:
        state.launch.now = Launched(attempt=attempt, at=signal.received)
    RULES[signal.kind](state.launch.now, signal)


def _started(launched: Launched, signal: Signal) -> None:
    data = signal.data
    launched.nodes = len(set(reading.names(data, "nodes", MAX_NODES)))
    launched.world_size = reading.integer(data, "world_size") or 0
    launched.resume_step = reading.integer(reading.mapping(data, "resume"), "step")
    launched.fingerprint = flat(reading.mapping(data, "fingerprint"))
    launched.sizes = _sizes(data)


def _sizes(data: Mapping[str, Any]) -> dict[str, float]:
    """Read the declared sizes, of which the number of parameters may stand alone."""
    declared = {"count": data.get("parameters")} | dict(reading.mapping(data, "parameters"))
    found = {}
    for name, spellings in SIZES.items():
        value = next((value for word in spellings if (value := reading.number(declared, word)) is not None), None)
        if value is not None and value > 0:
            found[name] = value
    return found


def flat(fingerprint: Mapping[str, Any]) -> dict[str, str]:
    """Give a fingerprint as names and short texts; one level of nesting becomes "outer.inner"."""
    found: dict[str, str] = {}
    for name, value in list(fingerprint.items())[:MAX_ENTRIES]:
        inner = list(value.items())[:MAX_ENTRIES] if isinstance(value, Mapping) else [("", value)]
        for key, held in inner:
            if len(found) < MAX_ENTRIES:
                found[f"{name}.{key}"[:MAX_VALUE] if key else str(name)[:MAX_VALUE]] = str(held)[:MAX_VALUE]
    return found


def _rank_started(launched: Launched, signal: Signal) -> None:
    groups = reading.mapping(signal.data, "groups")
    if signal.rank is None or not 0 <= signal.rank < MAX_RANKS or not groups:
        return
    tp, pp, dp = (reading.integer(groups, name) or 0 for name in ("tp", "pp", "dp"))
    launched.copies = max(launched.copies, dp + 1)
    if tp or pp:
        launched.places[signal.rank] = f"{tp}/{pp}"


def _resumed(launched: Launched, signal: Signal) -> None:
    if signal.rank is None or not 0 <= signal.rank < MAX_RANKS:
        return
    count = reading.number(signal.data, "parameters")
    if count is not None and count > 0:
        launched.counts[signal.rank] = count
    if launched.resumed_rank is None or signal.rank <= launched.resumed_rank:
        launched.resumed_rank = signal.rank
        launched.resumed_step = reading.integer(signal.data, "step")
        launched.resumed_world = reading.integer(signal.data, "world_size")


def _step(launched: Launched, signal: Signal) -> None:
    step = reading.integer(signal.data, "step")
    if step is not None and step >= 0:
        launched.first_step = step if launched.first_step is None else min(launched.first_step, step)
        launched.last_step = step if launched.last_step is None else max(launched.last_step, step)


def _saved(launched: Launched, signal: Signal) -> None:
    step = reading.integer(signal.data, "step")
    tier, word = reading.text(signal.data, "tier"), reading.text(signal.data, "state")
    if step is not None and word in DURABLE and tier in ("", "persistent"):
        launched.saved_step = max(step, launched.saved_step or 0)


RULES: Mapping[str, Callable[[Launched, Signal], None]] = {
    "attempt.started": _started,
    "rank.started": _rank_started,
    "rank.resume": _resumed,
    "rank.step": _step,
    "checkpoint": _saved,
}
KINDS = frozenset(RULES)
