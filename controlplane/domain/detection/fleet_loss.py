"""Judge silence in the fleet: one idle node, or many nodes at once (methods 2, 11.3).

Many nodes that fall silent together have one cause. They are one finding and one
decision: told to the run that they belong to, once it stands still and either they
share a failure domain or the scheduler confirms each; held back from everybody when
they are too many or too scattered to be believed; and no loss at all while the run
advances. What one run has answered by going on without them is not told again.
"""

from collections.abc import Iterable

from controlplane.domain.detection import fleet_words as words
from controlplane.domain.detection import maintenance
from controlplane.domain.detection.fleet_places import DOWN, LOST, UNSEEN, all_down, domain_of
from controlplane.domain.detection.fleet_state import FleetNode, FleetState, GroupLoss, Witness
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Finding, Stage

BURST = 3


def silence_s(state: FleetState, node: FleetNode, now: float) -> float:
    """Seconds without a word, as far as we were listening; 0 for a node that never spoke."""
    return 0.0 if node.last_at is None else now - max(node.last_at, state.sight.resumed_at)


def silent_nodes(state: FleetState, policy: RunPolicy, now: float) -> list[str]:
    """Give the nodes that have said nothing for `silence_s` and more."""
    return [name for name, node in sorted(state.nodes.items()) if silence_s(state, node, now) >= policy.silence_s]


def unexplained(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> set[str]:
    """Give the silent nodes that nothing explains: no maintenance, no quarantine, no earlier answer."""
    plan = state.maintenance
    return {
        name
        for name in silent_nodes(state, policy, now)
        if name not in witness.kept_out
        and not state.nodes[name].answered
        and not maintenance.excused(plan, name, state.nodes[name].last_at, policy, now)
    }


def _last(state: FleetState, name: str) -> float:
    return state.nodes[name].last_at or 0.0


def _burst(state: FleetState, names: Iterable[str], policy: RunPolicy) -> list[str]:
    """Give the largest set of silent nodes whose last words lie within one burst."""
    ordered = sorted(names, key=lambda name: _last(state, name))
    best: list[str] = []
    first = 0
    for last, name in enumerate(ordered):
        while _last(state, name) - _last(state, ordered[first]) > policy.burst_s:
            first += 1
        if last - first + 1 > len(best):
            best = ordered[first : last + 1]
    return best


def together(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Judge nodes that fell silent together: one finding for all, however many."""
    group = state.group
    if group.open:
        _settle_answered(state, witness)
    silent = unexplained(state, policy, now, witness)
    if group.open and silent.isdisjoint(group.nodes):
        return _close(state, policy, now)
    lost = _burst(state, silent, policy)
    if group.open:
        lost = sorted(silent & {*group.nodes, *lost})
    elif len(lost) < BURST or _nobody_speaks(state, policy, now):
        return []
    if not group.open:
        _open(state, lost)
    state.group.nodes = sorted(lost)
    return _judge(state, policy, now, witness)


def _open(state: FleetState, lost: list[str]) -> None:
    began = min(_last(state, name) for name in lost)
    state.group = GroupLoss(serial=state.group.serial + 1, open=True, began=began)


def _close(state: FleetState, policy: RunPolicy, now: float) -> list[Finding]:
    """End the group: taken back where its nodes speak, without a word where they were answered."""
    group = state.group
    group.open = group.hold = False
    names = [name for name in group.nodes if name in state.nodes]
    silent = set(silent_nodes(state, policy, now))
    found = [words.cleared(state, None, now)] if group.fleet_told else []
    if any(name not in silent for name in names):
        found += [words.cleared(state, run, now) for run in group.homes]
    return found


def _settle_answered(state: FleetState, witness: Witness) -> None:
    """A run that has a newer attempt went on without what it lost."""
    group = state.group
    newest = dict(witness.homes.values())
    for run in [run for run, attempt in group.homes.items() if newest.get(run, attempt) > attempt]:
        del group.homes[run]
        for name in {*group.nodes} - {*witness.homes}:
            if name in state.nodes:
                state.nodes[name].answered = True


def _nobody_speaks(state: FleetState, policy: RunPolicy, now: float) -> bool:
    """The last ones are about to fall silent too: then it is we who do not hear."""
    return now - (state.sight.last_word or now) > 2 * policy.heartbeat_s


def _judge(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Hold at once; speak once the runs have shown whether they advance.

    An advancing run is the perfect witness that only telemetry is lost; that is told
    when it lasts.
    """
    group = state.group
    missing = {*group.nodes} - witness.advancing
    group.why = _why_hold(state, group.nodes, policy, witness) if missing else ""
    group.hold = bool(group.why)
    waiting = (missing & witness.busy) - witness.stalled
    if waiting and not group.klass:
        return []
    if not missing and not _lasts(state, group.nodes, policy.telemetry_ticket_s, now):
        return []
    if not waiting:
        group.klass = LOST if missing else UNSEEN
    group.found_at = group.found_at or now
    group.stage = (Stage.CONFIRMED if _sure(state, sorted(missing), policy, now) else Stage.SUSPECT).value
    return _told(state, sorted(missing), now, witness)


def _lasts(state: FleetState, names: Iterable[str], seconds: float, now: float) -> bool:
    return all(silence_s(state, state.nodes[name], now) >= seconds for name in names)


def _sure(state: FleetState, missing: list[str], policy: RunPolicy, now: float) -> bool:
    """As for a single node: the scheduler says so, or the silence outlasts the hold; a hold itself is sure."""
    hold_s = policy.silence_s + policy.silence_hold_s
    known = state.group.hold or state.group.klass == UNSEEN
    return known or all_down(state, missing) or _lasts(state, missing, hold_s, now)


def _told(state: FleetState, missing: list[str], now: float, witness: Witness) -> list[Finding]:
    """Tell each run its own loss; tell the fleet what is held, unseen, or belongs to nobody."""
    group = state.group
    if group.klass == LOST and not group.hold:
        homes = {name: witness.homes[name] for name in missing if name in witness.homes}
        group.homes = {**group.homes, **dict(homes.values())}
        if group.homes:
            return [*_of_runs(state, missing, witness), *_taken_from_fleet(state, now)]
    group.fleet_told = True
    return [words.group(state, missing or group.nodes, None, witness)]


def _of_runs(state: FleetState, missing: list[str], witness: Witness) -> list[Finding]:
    group = state.group
    shares = {run: [name for name in missing if witness.homes.get(name, ("",))[0] == run] for run in group.homes}
    return [words.group(state, names, run, witness) for run, names in sorted(shares.items()) if names]


def _taken_from_fleet(state: FleetState, now: float) -> list[Finding]:
    """What the fleet held back has been confirmed and is a run's loss now."""
    group = state.group
    if not group.fleet_told:
        return []
    group.fleet_told = False
    return [words.cleared(state, None, now)]


def _why_hold(state: FleetState, lost: list[str], policy: RunPolicy, witness: Witness) -> str:
    """Say why automation holds, "" when the loss has one place or is confirmed (methods 2)."""
    watched = len(state.nodes)
    if len(lost) > max(policy.hold_floor, policy.hold_share * watched):
        return f"{len(lost)} of {watched} nodes fell silent together"
    if len(lost) < BURST or state.group.homes:
        return ""
    sure = witness.stalled.issuperset(lost) and all_down(state, lost)
    if sure or domain_of(state, lost):
        return ""
    return f"{len(lost)} nodes in several places fell silent together and nothing else confirms it"


def hold_words(state: FleetState) -> str:
    """Say why automation holds, "" when it does not."""
    if state.sight.blind:
        return "no node is heard"
    return state.group.why if state.group.open and state.group.hold else ""


def due(state: FleetState, policy: RunPolicy, now: float) -> float | None:
    """Give the next moment at which somebody's silence may count."""
    limits = (policy.silence_s, policy.silence_s + policy.silence_hold_s, policy.telemetry_ticket_s)
    resumed = state.sight.resumed_at
    heard = (max(node.last_at, resumed) for node in state.nodes.values() if node.last_at is not None)
    moments = [last + limit for last in heard for limit in limits]
    moments += maintenance.moments(state.maintenance, policy)
    return min((moment for moment in moments if moment > now), default=None)


def singles(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Tell of single idle nodes; those of a run are the run's to judge.

    The scheduler's word and six missed beats make a spare lost; silence alone is
    lost telemetry, told after five minutes.
    """
    grouped = set(state.group.nodes) if state.group.open else set()
    idle = unexplained(state, policy, now, witness) - witness.busy - grouped
    found = []
    for name, node in sorted(state.nodes.items()):
        silent_s = silence_s(state, node, now)
        if node.told_at is not None and silent_s < policy.silence_s:
            found.append(words.single(name, node, Stage.CLEARED, now))
            node.told_at = None
            continue
        lost = node.scheduler in DOWN - {"drained"}
        if node.told_at is None and name in idle and (lost or silent_s >= policy.telemetry_ticket_s):
            node.told_at, node.told_serial = now, node.told_serial + 1
            node.told_klass = "node_lost" if lost else UNSEEN
        if node.told_at is not None:
            found.append(words.single(name, node, Stage.CONFIRMED, node.told_at))
    return found
