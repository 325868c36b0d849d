"""What the modules of the fleet's reducer share: classes, words of the scheduler, failure domains."""

from collections.abc import Iterable

from controlplane.domain.detection.fleet_state import FleetState

UNSEEN = "telemetry_lost"
LOST = "correlated_loss"
DOMAIN_LABELS = ("rack", "switch", "zone")
DOWN = frozenset({"down", "drained", "fail", "failed"})
NAMED = 8
"""As many nodes are named in a sentence; the facts hold all."""


def domain_of(state: FleetState, names: Iterable[str]) -> str:
    """Give the failure domain that all of them share, `rack:r3`, or ""."""
    known = [state.nodes[name] for name in names if name in state.nodes]
    for label in DOMAIN_LABELS:
        values = {node.labels.get(label, "") for node in known}
        if len(values) == 1 and "" not in values and not _everyone_in(state, label, next(iter(values))):
            return f"{label}:{values.pop()}"
    return ""


def _everyone_in(state: FleetState, label: str, value: str) -> bool:
    """A label that every node shares tells nothing."""
    return all(node.labels.get(label, value) == value for node in state.nodes.values())


def all_down(state: FleetState, names: Iterable[str]) -> bool:
    """Say whether the scheduler calls each of them down."""
    return all(state.nodes[name].scheduler in DOWN for name in names if name in state.nodes)


def listed(names: Iterable[str]) -> str:
    """Name nodes in a sentence, shortened when they are many."""
    ordered = sorted(names)
    if len(ordered) <= NAMED:
        return ", ".join(ordered)
    return f"{', '.join(ordered[: NAMED - 1])} and {len(ordered) - NAMED + 1} more"
