"""Who is blamed, how far ahead of everybody else, and of what kind the answer is.

A rank, its GPU and its node are one place, so they are no rivals. A node is blamed
only by evidence about the node or its GPUs: what a process did to itself is laid on
its rank, and a rank is never taken out of the fleet (methods 7).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.diagnosis.inhibit import lead
from controlplane.domain.diagnosis.weigh import Weighed
from controlplane.domain.findings import Evidence, Finding, Stage

ACT_SCORE = 4.0
ACT_MARGIN = 2.0
MAX_BLAMED = 8
MAX_TIED = 2
"""More places than these at the top alike: what everybody shows identifies nobody."""
NEVER_A_NODE = frozenset(
    {"storage_stall", "correlated_loss", "checkpoint_poison", "workload_error", "identity_conflict", "loss_anomaly"}
)
"""Classes whose cause is no single node, whatever its ranks show."""

_ONLY: Mapping[str, frozenset[str]] = {
    "storage_stall": frozenset({"storage"}),
    "correlated_loss": frozenset({"domain", "network", "platform"}),
}
"""While these stand, blame on anything else is suspended (D-18, L-07)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """A candidate with its score and its distance to the best candidate elsewhere."""

    entity: str
    score: float
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`blamed` stand out, `alternatives` do not; `exclude` are the nodes to leave out, `act_on` the one of them."""

    blamed: tuple[Blame, ...]
    alternatives: tuple[Blame, ...]
    act_on: str | None
    exclude: tuple[str, ...]
    answer: str


class Places:
    """Where ranks and GPUs are, as the findings tell it."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Read the `places` and `gpus` of the findings' facts; later ones win."""
        self._node: dict[str, str] = {}
        for item in sorted(findings, key=lambda item: item.at):
            self._read("rank", item.facts.get("places"))
            self._read("gpu", item.facts.get("gpus"))
            node = item.facts.get("node")
            if item.entity.startswith("gpu:") and isinstance(node, str):
                self._node[item.entity] = f"node:{node}"

    def _read(self, kind: str, known: Any) -> None:
        for name, node in known.items() if isinstance(known, Mapping) else ():
            entity = name if ":" in str(name) else f"{kind}:{name}"
            self._node[entity] = f"node:{str(node).removeprefix('node:')}"

    def of(self, entity: str) -> str:
        """Give the node that an entity is part of, or the entity itself."""
        return self._node.get(entity, entity)


def judge(weighed: Weighed, findings: Sequence[Finding], *, confirmed: bool) -> Verdict:
    """Judge who stands out; `findings` are those that hold, not empty."""
    leading, places = lead(findings), Places(findings)
    scores = _allowed(_totals(weighed.scores, places), leading)
    ahead = _in_order(scores, weighed.lines, places)
    blamed = _standing_out(ahead)
    sure = confirmed and leading.klass not in NEVER_A_NODE
    act_on = _act_on(blamed, scores, weighed, places) if sure else None
    return Verdict(
        blamed=tuple(item.blame for item in blamed[:MAX_BLAMED]),
        alternatives=tuple(item.blame for item in ahead if item not in blamed)[:MAX_BLAMED],
        act_on=act_on,
        exclude=_exclude(leading, act_on, blamed, findings) if confirmed else (),
        answer=_answer(blamed, weighed.lines, places),
    )


def _totals(scores: Mapping[str, float], places: Places) -> dict[str, float]:
    """Add what its GPUs show to a node that evidence names itself: it is one machine."""
    totals = dict(scores)
    for entity, score in scores.items():
        node = places.of(entity)
        if entity.startswith("gpu:") and node in scores:
            totals[node] += score
    return totals


def _allowed(scores: Mapping[str, float], leading: Finding) -> dict[str, float]:
    only = _ONLY.get(leading.klass) if leading.stage is not Stage.SUSPECT else None
    return {entity: score for entity, score in scores.items() if only is None or _kind(entity) in only}


def _kind(entity: str) -> str:
    return entity.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Candidate:
    blame: Blame
    place: str
    order: int


def _in_order(scores: Mapping[str, float], lines: Sequence[Evidence], places: Places) -> list[_Candidate]:
    best: dict[str, float] = defaultdict(float)
    for entity, score in scores.items():
        best[places.of(entity)] = max(best[places.of(entity)], score)
    top = sorted(best.items(), key=lambda pair: -pair[1])[:2]
    found = []
    for entity, score in scores.items():
        if round(score, 2) <= 0:
            continue
        here = places.of(entity)
        rival = next((value for place, value in top if place != here), 0.0)
        blame = Blame(entity=entity, score=round(score, 2), margin=round(score - rival, 2))
        found.append(_Candidate(blame, here, _precedence(entity, lines)))
    return sorted(found, key=lambda item: (-item.blame.score, item.order, item.blame.entity))


_PRECEDENCE = ("gpu", "storage", "checkpoint", "node", "domain", "data", "workload", "rank", "network", "platform")


def _precedence(entity: str, lines: Sequence[Evidence]) -> int:
    """Order equal scores: hardware, host, process, communication, time-out (methods 7)."""
    kinds = {line.kind for line in lines if line.entity == entity and line.weight > 0}
    if _kind(entity) == "node" and any(_is_hardware(kind) for kind in kinds):
        return 0
    return _PRECEDENCE.index(_kind(entity)) if _kind(entity) in _PRECEDENCE else len(_PRECEDENCE)


def _is_hardware(kind: str) -> bool:
    return kind.lower().startswith(("xid", "sxid", "ecc", "remap", "nvlink", "gpu"))


def _standing_out(ahead: Sequence[_Candidate]) -> list[_Candidate]:
    """Keep who is ahead of every other place, or one of the two at the top alike."""
    clear = [item for item in ahead if item.blame.margin > 0]
    if clear:
        return _workload_alone(clear)
    tied = [item for item in ahead if item.blame.score == ahead[0].blame.score]
    tied = [item for item in tied if item.order == tied[0].order]
    return tied if len({item.place for item in tied}) <= MAX_TIED else []


def _workload_alone(clear: list[_Candidate]) -> list[_Candidate]:
    """What the program does everywhere is no rank's and no node's own."""
    return clear[:1] if clear[0].blame.entity == "workload" else clear


def _act_on(blamed: Sequence[_Candidate], scores: Mapping[str, float], weighed: Weighed, places: Places) -> str | None:
    """Give the node that is far enough ahead by evidence about it or its GPUs."""
    for item in blamed:
        if not item.place.startswith("node:") or not item.blame.entity.startswith(("node:", "gpu:")):
            continue
        own = sum(score for entity, score in weighed.scores.items() if _about(entity, item.place, places))
        rival = max((score for entity, score in scores.items() if places.of(entity) != item.place), default=0.0)
        if round(own, 2) >= ACT_SCORE and round(own - max(0.0, rival), 2) >= ACT_MARGIN:
            return item.place.removeprefix("node:")
    return None


def _about(entity: str, place: str, places: Places) -> bool:
    return entity == place or (entity.startswith("gpu:") and places.of(entity) == place)


def _exclude(
    leading: Finding, act_on: str | None, blamed: Sequence[_Candidate], findings: Sequence[Finding]
) -> tuple[str, ...]:
    """Give the nodes to leave out: a group that is gone, the one condemned, or two that are lost alone."""
    if leading.klass == "correlated_loss":
        nodes = leading.facts.get("nodes")
        return tuple(sorted(str(name) for name in nodes)) if isinstance(nodes, (list, tuple)) else ()
    if act_on:
        return (act_on,)
    lost = {item.entity for item in findings if item.klass == "node_lost" and item.stage is Stage.CONFIRMED}
    sure = [item for item in blamed if item.blame.entity in lost and item.blame.score >= ACT_SCORE]
    return tuple(sorted(item.blame.entity.removeprefix("node:") for item in sure))


_ANSWERS = {"checkpoint": "data", "domain": "platform"}
ANSWERS = frozenset({"node", "gpu", "network", "workload", "data", "storage", "platform", "unknown"})


def _answer(blamed: Sequence[_Candidate], lines: Sequence[Evidence], places: Places) -> str:
    """Give the kind of the answer; unknown is one."""
    if not blamed:
        return "unknown"
    first = blamed[0]
    kind = _ANSWERS.get(_kind(first.blame.entity), _kind(first.blame.entity))
    if kind == "rank":
        return _answer_of_rank(first, lines, places)
    return kind if kind in ANSWERS else "unknown"


def _answer_of_rank(first: _Candidate, lines: Sequence[Evidence], places: Places) -> str:
    """A rank's own error is the workload's, unless its machine shows one too."""
    hard = [line for line in lines if line.weight > 0 and line.entity.startswith(("node:", "gpu:"))]
    own = [line for line in hard if _about(line.entity, first.place, places)]
    if own:
        return "node" if all(line.entity == first.place for line in own) else "gpu"
    raised = max(line.weight for line in lines if line.entity == first.blame.entity)
    return "workload" if raised >= ACT_SCORE else "unknown"
