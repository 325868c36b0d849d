"""The sentence of the fleet, and the map of its nodes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.domain.fleet.states import KEPT_OUT
from controlplane.fleet.models import Node
from controlplane.runs.models import Run, RunState
from controlplane.web.present import badges
from controlplane.web.present.needs import Need
from controlplane.web.present.words import Badge, age, plural, sentence

OLD_AFTER = timedelta(seconds=30)
NO_RACK = "no rack"
BY_ITS_WORD = ("unknown", "healthy", "spare")
"""States that hold only as long as the node goes on speaking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One node of the map; `old` when it has not been heard lately, so its state cannot be known.

    `said` stands beside the mark: what it says of a node that no letter says.
    """

    name: str
    badge: Badge
    old: bool
    heard: str
    said: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Nodes that stand together."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the fleet stands: the sentence that is read first, what stands beside it, "" for nothing, and the tone."""

    sentence: str
    beside: str
    tone: str


def standing(runs: Sequence[Run], asks: Mapping[int, Collection[Need]], own: Collection[Need] = ()) -> Standing:
    """Say how the fleet stands: whether a person is needed comes before everything else.

    `asks` holds what the open incidents of each run ask for, by its number, `own` those of the fleet itself.
    """
    most = {run: min(needs, key=list(Need).index) for run, needs in asks.items() if needs}
    count = Counter(most.values())
    person, recovering, watched = (count[need] for need in (Need.PERSON, Need.RECOVERING, Need.WATCHED))
    if person or Need.PERSON in own:
        who = f"{_share(person, runs)} {'needs' if person == 1 else 'need'}" if person else "The fleet needs"
        beside = f"{plural(recovering, 'other')} {_verb(recovering)} recovering without you." if recovering else ""
        return Standing(sentence=f"{who} you", beside=beside, tone="bad")
    if recovering:
        told = f"{_share(recovering, runs)} {_verb(recovering)} recovering without you"
        return Standing(sentence=told, beside="There is nothing for you to do.", tone="warn")
    if watched or own:
        what = f"{_share(watched, runs)} {_verb(watched)}" if watched else "The fleet is"
        told = "There is nothing for you to do: what was found is worth knowing, or not certain yet."
        return Standing(sentence=f"{what} watched closely", beside=told, tone="warn")
    said, tone = _calm(runs)
    return Standing(sentence=said, beside="", tone=tone)


def _calm(runs: Sequence[Run]) -> tuple[str, str]:
    if not runs:
        return "No run is known yet", "quiet"
    going = [run for run in runs if run.state == RunState.RUNNING]
    if not going:
        none = f"{_only(runs)} is not" if len(runs) == 1 else f"None of {len(runs)} runs is"
        return f"{none} training", "quiet"
    if len(going) == len(runs):
        every = f"{_only(runs)} is" if len(runs) == 1 else f"All {len(runs)} runs are"
        return f"{every} progressing", "good"
    told = f"{len(going)} of {plural(len(runs), 'run')} {_verb(len(going))} progressing, nothing is wrong"
    return told, "good"


def _share(some: int, runs: Sequence[Run]) -> str:
    return _only(runs) if len(runs) == 1 else f"{some} of {plural(len(runs), 'run')}"


def _only(runs: Sequence[Run]) -> str:
    return f"Run {runs[0].name}"


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def racks(nodes: Iterable[Node], now: datetime, *, frozen: Collection[str] = ()) -> list[Rack]:
    """Group nodes by their rack label, each group by name; `frozen` names those that automation may not move."""
    groups: dict[str, list[Cell]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        rack = str(node.labels.get("rack") or NO_RACK)[:60]
        groups.setdefault(rack, []).append(cell(node, now, frozen=node.name in frozen))
    return [Rack(name=name, cells=tuple(cells)) for name, cells in sorted(groups.items())]


def cell(node: Node, now: datetime, *, frozen: bool = False) -> Cell:
    """Show a node as glyph and letter. Silence greys it, and never turns it into a failure."""
    notes = [word for word, holds in (("held", node.held), ("frozen", frozen)) if holds]
    return Cell(
        name=node.name,
        badge=badges.LAUNCHER if node.head else badges.of(badges.NODE, node.state),
        old=is_old(node, now),
        heard=age(node.last_seen_at, now),
        said=_said(node, now),
        note=", ".join(notes),
    )


def _said(node: Node, now: datetime) -> str:
    if node.last_seen_at is None:
        return "not heard yet"
    if is_old(node, now):
        return "silent"
    return "launcher" if node.head else ""


def is_old(node: Node, now: datetime) -> bool:
    """Whether what we know of a node is too old to be believed."""
    return node.last_seen_at is None or now - node.last_seen_at > OLD_AFTER


def spares(nodes: Collection[Node], now: datetime) -> tuple[int, str]:
    """Count the spares that are heard; the words beside it tell of the silent ones, "" where there are none."""
    silent = sum(is_old(node, now) for node in nodes)
    return len(nodes) - silent, f", {silent} more {_verb(silent)} silent" if silent else ""


def _silent(node: Node, mark: Badge, heard: str) -> str:
    """Say what silence leaves of a state: a verdict, or a move made since, stands; a node's own word does not."""
    moved_since = node.last_seen_at is not None and node.state_since > node.last_seen_at
    if node.state in BY_ITS_WORD and not moved_since:
        return f"Node {node.name} was last heard {heard}; it was {mark.word.lower()} then"
    return f"Node {node.name} is {mark.word.lower()} and was last heard {heard}"


def frozen_words(node: Node, why: str) -> str:
    """Say why automation moves a node in neither direction, and which person's move ends that."""
    out = "release it if you trust it"
    move = sentence(out) if node.state in KEPT_OUT else f"Put it into quarantine, and {out}"
    return f"{sentence(why).rstrip('.')}. {move}: automation may then move it again"


def counts(nodes: Iterable[Node]) -> list[tuple[Badge, int]]:
    """Count nodes by state, in the order of the ledger."""
    found = Counter(node.state for node in nodes if not node.head)
    return [(mark, found[state]) for state, mark in badges.NODE.items() if found[state]]


def node_sentence(node: Node, now: datetime) -> tuple[str, str]:
    """Say how a node stands and in which tone."""
    mark = badges.of(badges.NODE, node.state)
    if node.last_seen_at is None:
        return f"Node {node.name} was enrolled and has not said hello yet", "quiet"
    if is_old(node, now):
        return _silent(node, mark, age(node.last_seen_at, now)), "warn"
    if node.head:
        return f"Node {node.name} launches runs and takes no ranks", "good"
    return f"Node {node.name} is {mark.word.lower()}", mark.tone
