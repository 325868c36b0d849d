"""Judge nodes that say nothing (methods 2).

Silence alone never kills: beside a run that advances it is our telemetry that is
lost. Only together with a run that stands still, or with the scheduler's word, does
silence mean a lost node, and then only after a hold. When many nodes fall silent at
once the cause is common, and nothing is judged one by one.
"""

from bisect import bisect_right

from controlplane.domain.detection import maintenance, weights
from controlplane.domain.detection.phases import clock
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import ENDED, AttemptState, NodeState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-07"
LOST = "node_lost"
UNSEEN = "telemetry_lost"
DOWN = frozenset({"down", "fail", "failed"})
DRAINED = "drained"
BY_ITSELF = frozenset({"", "root", "slurm"})
"""Owners of a drain that no person ordered."""


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge each node of the attempt; give the findings that hold and those that cleared."""
    attempt = state.attempt
    if attempt is None or not _watched(state, attempt):
        return []
    back = [_clear(state, name, now) for name in _returned(state, attempt, policy, now)]
    if held(state, policy, now):
        return back
    stalled = _in_doubt(state, attempt, policy, now) and _stalled(state, policy, now)
    told_as_one = _unseen_together(state, policy, now)
    names = [name for name in members(attempt) if name not in told_as_one]
    found = [_judge(state, name, policy, now, stalled=stalled) for name in names]
    return [*back, *(finding for finding in found if finding is not None)]


def _unseen_together(state: RunState, policy: RunPolicy, now: float) -> set[str]:
    """So many nodes lost only their telemetry that the fleet tells it once for all."""
    unseen = {
        name
        for name in silent_nodes(state, policy, now)
        if not (node := state.nodes[name]).verdict and _only_unseen(state, node, policy)
    }
    return unseen if len(unseen) > policy.hold_floor else set()


def _in_doubt(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> bool:
    return any(
        node.verdict or node.scheduler in (*DOWN, DRAINED) or _silent_s(state, name, now) >= policy.silence_s
        for name in members(attempt)
        if (node := state.nodes.get(name)) is not None
    )


def members(attempt: AttemptState) -> list[str]:
    """Give the nodes of the attempt, by the launcher's word or by where ranks spoke from."""
    return attempt.nodes or sorted({rank.node for rank in attempt.ranks.values() if rank.node})


def silent_nodes(state: RunState, policy: RunPolicy, now: float) -> list[str]:
    """Give the nodes of the attempt that have been silent for `silence_s` and more."""
    if state.attempt is None:
        return []
    return [name for name in members(state.attempt) if _silent_s(state, name, now) >= policy.silence_s]


def _unannounced(state: RunState, policy: RunPolicy, now: float) -> list[NodeState]:
    """Silent nodes that are neither in maintenance nor known to be only unseen."""
    nodes = [(name, state.nodes[name]) for name in silent_nodes(state, policy, now)]
    plan = state.maintenance
    return [
        node
        for name, node in nodes
        if not maintenance.excused(plan, name, node.last_at, policy, now) and not _only_unseen(state, node, policy)
    ]


def _only_unseen(state: RunState, node: NodeState, policy: RunPolicy) -> bool:
    """The run made a step when the node had been silent long enough to be dead: it was not."""
    attempt = state.attempt
    return attempt is not None and attempt.progress_at - (node.last_at or 0.0) >= policy.silence_s


def held(state: RunState, policy: RunPolicy, now: float) -> bool:
    """Say whether so many nodes fell silent together that they are the fleet's to judge (methods 2, 11.3)."""
    if state.attempt is None:
        return False
    began = sorted(node.last_at or 0.0 for node in _unannounced(state, policy, now))
    together = max((bisect_right(began, at + policy.burst_s) - place for place, at in enumerate(began)), default=0)
    return together > policy.hold_floor


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give the next moment at which the silence of a member, or the run's standing still, may count."""
    attempt = state.attempt
    if attempt is None or not _watched(state, attempt):
        return None
    limits = (policy.silence_s, policy.silence_s + policy.silence_hold_s, policy.telemetry_ticket_s)
    moments = [heard + limit for heard in _heard(state, attempt) for limit in limits]
    waited = clock(state, policy, now) if _in_doubt(state, attempt, policy, now) else None
    if waited is not None:
        moments.append(max(waited.since, state.sight.resumed_at) + waited.deadline_s)
    return min((moment for moment in moments if moment > now), default=None)


def _heard(state: RunState, attempt: AttemptState) -> list[float]:
    nodes = (state.nodes.get(name) for name in members(attempt))
    return [max(node.last_at, state.sight.resumed_at) for node in nodes if node is not None and node.last_at]


def _watched(state: RunState, attempt: AttemptState) -> bool:
    """A stopped attempt's nodes are judged only while its trouble is being worked on."""
    return attempt.state in ("live", ENDED) or (attempt.state == "resting" and state.troubled)


def _silent_s(state: RunState, name: str, now: float) -> float:
    node = state.nodes.get(name)
    if node is None or node.last_at is None:
        return 0.0
    return now - max(node.last_at, state.sight.resumed_at)


def _returned(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> list[str]:
    """Nodes that spoke again before they were judged lost, or that were only unseen."""
    return [
        name
        for name in members(attempt)
        if (node := state.nodes.get(name)) is not None
        and node.verdict
        and (node.last_at or 0.0) > node.silent_since
        and _silent_s(state, name, now) < policy.silence_s
        and not _down_now(node)
    ]


def _down_now(node: NodeState) -> bool:
    return node.verdict == LOST and node.stage == Stage.CONFIRMED


def _stalled(state: RunState, policy: RunPolicy, now: float) -> bool:
    waited = clock(state, policy, now)
    return state.troubled or (
        waited is not None and now - max(waited.since, state.sight.resumed_at) >= waited.deadline_s
    )


def advanced_since(state: RunState, node: NodeState, policy: RunPolicy) -> bool:
    """A step made when the node must have been dead, had it died after its last word."""
    attempt = state.attempt
    grace = policy.heartbeat_s + policy.delta_s
    return attempt is not None and attempt.progress_at > (node.last_at or 0.0) + grace


def _judge(state: RunState, name: str, policy: RunPolicy, now: float, *, stalled: bool) -> Finding | None:
    node = state.nodes.get(name)
    if node is None:
        return None
    if maintenance.excused(state.maintenance, name, node.last_at, policy, now):
        return _standing(state, name, node)
    silent_s = _silent_s(state, name, now)
    verdict = _verdict(state, node, policy, silent_s, stalled=stalled)
    if verdict is None:
        return _standing(state, name, node)
    klass, stage = verdict
    if (node.verdict, node.stage) == (LOST, Stage.CONFIRMED):
        return _standing(state, name, node)
    replaced = node.verdict and node.verdict != klass
    if (node.verdict, node.stage) != (klass, stage.value):
        node.serial += node.verdict != klass
        node.verdict, node.stage, node.found_at = klass, stage.value, now
        node.silent_since = node.last_at or now
        node.dying = silent_s < policy.silence_s
    return _finding(state, name, node, replaced=bool(replaced))


def _verdict(
    state: RunState, node: NodeState, policy: RunPolicy, silent_s: float, *, stalled: bool
) -> tuple[str, Stage] | None:
    silent = silent_s >= policy.silence_s
    advanced = advanced_since(state, node, policy) and not stalled
    if not advanced and (silent or stalled) and _called_down(node, silent=silent):
        return LOST, Stage.CONFIRMED
    if not silent:
        return None
    if stalled and _only_unseen(state, node, policy):
        return UNSEEN, Stage.CONFIRMED
    if stalled:
        sure = silent_s >= policy.silence_s + policy.silence_hold_s
        return LOST, Stage.CONFIRMED if sure else Stage.SUSPECT
    return (UNSEEN, Stage.CONFIRMED) if advanced and silent_s >= policy.telemetry_ticket_s else None


def _called_down(node: NodeState, *, silent: bool) -> bool:
    """A node that a person drained may be in good order; it counts as lost only when it is silent as well."""
    return node.scheduler in DOWN or (node.scheduler == DRAINED and (silent or node.drained_by in BY_ITSELF))


def _standing(state: RunState, name: str, node: NodeState) -> Finding | None:
    return _finding(state, name, node) if node.verdict else None


def _key(state: RunState, name: str, node: NodeState) -> str:
    number = state.attempt.number if state.attempt else 0
    return f"{state.run}/{number}/{node.verdict}/{name}/{node.serial}"


def _finding(state: RunState, name: str, node: NodeState, *, replaced: bool = False) -> Finding:
    lost = node.verdict == LOST
    return Finding(
        key=_key(state, name, node),
        detector=DETECTOR,
        klass=node.verdict,
        stage=Stage(node.stage),
        entity=f"node:{name}",
        began=node.silent_since,
        at=node.found_at,
        run=state.run,
        attempt=state.attempt.number if state.attempt else None,
        severity="critical" if lost and node.stage == Stage.CONFIRMED else "warning",
        sentence=_sentence(state, name, node),
        evidence=tuple(_evidence(name, node)) if lost else (),
        facts={
            "scheduler": node.scheduler,
            "replaced": replaced,
            "dying": _dying(node),
            "nodes": [name],
            "fingerprint": node.verdict,
        },
    )


def _dying(node: NodeState) -> bool:
    """It was judged although it still spoke: there may be time to save."""
    return node.verdict == LOST and node.dying


def _sentence(state: RunState, name: str, node: NodeState) -> str:
    for_s = node.found_at - node.silent_since
    if node.verdict == UNSEEN:
        return (
            f"node {name} has said nothing for {for_s:.0f} s while run {state.run} advances; only its telemetry is lost"
        )
    if _dying(node):
        return f"node {name} is dying: the scheduler calls it {node.scheduler} and run {state.run} stands still"
    word = f", and the scheduler calls it {node.scheduler}" if node.scheduler in (*DOWN, DRAINED) else ""
    sure = "is lost" if node.stage == Stage.CONFIRMED else "may be lost"
    return f"node {name} {sure}: it has said nothing for {for_s:.0f} s while run {state.run} stands still{word}"


def _evidence(name: str, node: NodeState) -> list[Evidence]:
    entity, lines = f"node:{name}", []
    sure = node.stage == Stage.CONFIRMED
    if node.scheduler in DOWN or node.scheduler == DRAINED:
        text = f"the scheduler says that node {name} is {node.scheduler}"
        line = Evidence(at=node.found_at, entity=entity, weight=weights.NODE_DOWN, text=text, kind="scheduler down")
        lines.append(line)
    if node.found_at > node.silent_since and not node.dying:
        weight = weights.NODE_SILENT if sure else weights.NODE_DOUBT
        text = f"node {name} has been silent while the run stands still"
        lines.append(Evidence(at=node.silent_since, entity=entity, weight=weight, text=text, kind="node silent"))
    return lines


def _clear(state: RunState, name: str, now: float) -> Finding:
    node = state.nodes[name]
    finding = Finding(
        key=_key(state, name, node),
        detector=DETECTOR,
        klass=node.verdict,
        stage=Stage.CLEARED,
        entity=f"node:{name}",
        began=node.silent_since,
        at=now,
        run=state.run,
        attempt=state.attempt.number if state.attempt else None,
        severity="info",
        sentence=f"node {name} speaks again",
    )
    node.verdict, node.stage = "", ""
    return finding
