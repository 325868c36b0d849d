"""Which nodes the next attempt gets.

What worked is kept, since every change is a risk of its own; whoever is suspected,
kept out, held by a person or of unclear identity is refused; spares fill the gaps.
A node that is silent but not yet judged is worth waiting for: taking a spare for it
too early wastes the spare, taking the node itself too early wastes a launch.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.fleet.states import USABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node as the ledger and the heartbeats see it.

    `last_beat_age_s` is None for a node that never spoke. `busy` names another run
    that uses the node now, `closed` says why its scheduler places nothing on it.
    `place` holds the labels that say where it stands.
    """

    name: str
    state: str
    last_beat_age_s: float | None
    held: bool = False
    conflict: bool = False
    busy: str = ""
    closed: str = ""
    place: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """`nodes` in rank order; complete only when `missing` is 0.

    `replaced` maps each node left out to the one that took its place; `waiting_for`
    names silent nodes that are not judged yet; `refused` says why each other was not taken.
    """

    nodes: tuple[str, ...]
    replaced: Mapping[str, str]
    missing: int
    waiting_for: tuple[str, ...]
    refused: Mapping[str, str]
    why: str

    @property
    def complete(self) -> bool:
        """Say whether the attempt may be launched on `nodes`."""
        return self.missing == 0 and not self.waiting_for


def choose_nodes(
    *,
    wanted: int,
    current: Sequence[str],
    candidates: Iterable[Candidate],
    exclude: Mapping[str, str],
    policy: RunPolicy,
    least: int | None = None,
) -> NodeChoice:
    """Keep the good nodes of `current`, fill up with spares to `wanted`; order is kept.

    `exclude` maps the nodes that the decision leaves out to the reason. With `least` so
    few nodes are enough, once no silent one is waited for.
    """
    known = {node.name: node for node in candidates}
    refused = {name: why for name in current if (why := _refusal(known.get(name), name, exclude, policy))}
    waiting = tuple(name for name in current if refused.get(name) == SILENT)
    kept = [name for name in current if name not in refused][:wanted]
    spares = _spares(known.values(), current, exclude, policy)
    gone = [name for name in current if name in refused and name not in waiting]
    nodes, replaced = _fill(current, kept, {name: known.get(name) for name in gone}, spares, wanted - len(waiting))
    missing = max(0, wanted - len(nodes) - len(waiting))
    fewer = least is not None and not waiting and missing > 0 and len(nodes) >= least
    return NodeChoice(
        nodes=tuple(nodes),
        replaced=replaced,
        missing=0 if fewer else missing,
        waiting_for=waiting,
        refused=refused,
        why=_why(replaced, refused, missing, waiting) if not fewer else _smaller(len(nodes), wanted),
    )


def _smaller(nodes: int, wanted: int) -> str:
    return f"no more are free, and the run may go on with {nodes} of {wanted} nodes"


SILENT = "silent, not judged yet"


def _refusal(node: Candidate | None, name: str, exclude: Mapping[str, str], policy: RunPolicy) -> str:
    if name in exclude:
        return exclude[name]
    if node is None:
        return "unknown to the ledger"
    return _own_refusal(node) or ("" if _speaks(node, policy) else SILENT)


def _own_refusal(node: Candidate) -> str:
    if node.held:
        return "held by an operator"
    if node.conflict:
        return "two machines use its name"
    if node.busy:
        return f"used by run {node.busy}"
    if node.closed:
        return node.closed
    return "" if node.state in USABLE or node.state == "suspect" else node.state


def _speaks(node: Candidate, policy: RunPolicy) -> bool:
    return node.last_beat_age_s is not None and node.last_beat_age_s < _quiet_limit_s(policy)


def _quiet_limit_s(policy: RunPolicy) -> float:
    """Three missed beats raise a doubt that is worth waiting for; never later than silence."""
    return min(policy.silence_s, 3 * policy.heartbeat_s)


def _spares(
    nodes: Iterable[Candidate], current: Collection[str], exclude: Mapping[str, str], policy: RunPolicy
) -> list[Candidate]:
    """Spares first, freshest heartbeat first; a suspect is never brought in from outside."""
    fit = [
        node
        for node in nodes
        if node.name not in current and node.state in USABLE and not _refusal(node, node.name, exclude, policy)
    ]
    return sorted(fit, key=lambda node: (node.state != "spare", node.name))


def _fill(
    current: Sequence[str],
    kept: Sequence[str],
    gone: Mapping[str, Candidate | None],
    spares: Sequence[Candidate],
    room: int,
) -> tuple[list[str], dict[str, str]]:
    """Put the nearest spares into the places of the nodes that are gone, then append more."""
    free = list(spares)
    replaced: dict[str, str] = {}
    nodes: list[str] = []
    for name in current:
        if name in kept:
            nodes.append(name)
        elif name in gone and free and len(kept) + len(replaced) < room:
            spare = min(free, key=lambda item, old=gone[name]: _distance(old, item))  # type: ignore[misc]
            free.remove(spare)
            replaced[name] = spare.name
            nodes.append(spare.name)
    while free and len(nodes) < room:
        nodes.append(free.pop(0).name)
    return nodes, replaced


NEAR = ("switch", "rack")
"""Labels by which a spare is near to what it replaces, the nearest first (R-05, H-28)."""


def _distance(old: Candidate | None, new: Candidate) -> int:
    there = old.place if old else {}
    same = (rank for rank, label in enumerate(NEAR) if there.get(label) and there.get(label) == new.place.get(label))
    return next(same, len(NEAR))


def _why(replaced: Mapping[str, str], refused: Mapping[str, str], missing: int, waiting: Sequence[str]) -> str:
    parts = [f"{new} takes the place of {old} ({refused[old]})" for old, new in replaced.items()]
    if waiting:
        parts.append(f"waiting for a verdict on {', '.join(waiting)}")
    if missing:
        parts.append(f"{missing} more {'node is' if missing == 1 else 'nodes are'} needed and no spare is free")
    return "; ".join(parts) or "the same nodes, all of them good"
