"""Actions about nodes and what they share: keep out, fence, freeze, wait for spares, try the storage, drill."""

from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words

FREEZE_S = 1800.0
"""After a group was lost its nodes are let alone for so long, unless a file says otherwise."""
DAY_S = 86_400.0

NODE_ACTIONS: Sequence[Action] = (
    Action(
        name="keep_out",
        about="Quarantine the nodes that the evidence condemns by now, before anything else is done.",
        effect=Effect.ACTS,
        limit_s=60,
        gives=frozenset({"kept_out"}),
        undo="give_back",
        words=Words(
            next="keep the condemned nodes out of training",
            doing="keeping the condemned nodes out of training",
            done="Kept out: {kept_out}.",
            failed="Could not keep the condemned nodes out: {why}.",
        ),
    ),
    Action(
        name="give_back",
        about="Give nodes back that this execution drained or quarantined and that nobody has moved since.",
        effect=Effect.ACTS,
        limit_s=60,
        retries=2,
        words=Words(
            next="give back the nodes that this execution took out",
            doing="giving back the nodes that this execution took out",
            done="Gave back {given}; left as they are: {left}.",
            failed="Could not give the nodes back: {why}.",
        ),
    ),
    Action(
        name="fence_nodes",
        about="Keep out nodes on which nobody has proved that no rank is left, also in the scheduler.",
        effect=Effect.ACTS,
        limit_s=120,
        retries=1,
        by_launcher=True,
        fallback=True,
        gives=frozenset({"fenced", "stopped"}),
        words=Words(
            waits_for="the scheduler to close the nodes",
            next="fence the nodes on which a rank may still live",
            doing="fencing the nodes on which a rank may still live",
            done="Fenced: {fenced}.",
            failed="Could not fence the nodes on which a rank may still live: {why}.",
        ),
    ),
    Action(
        name="stop_ranks",
        about="Have the agents of the attempt's own nodes kill its ranks, where the launcher proved nothing.",
        effect=Effect.ACTS,
        limit_s=30,
        fallback=True,
        gives=frozenset({"stopped", "unproved"}),
        words=Words(
            waits_for="the nodes' agents to prove that no rank is left",
            next="have the nodes' agents end its ranks",
            doing="having the nodes' agents kill what is left of attempt {attempt}",
            done="No rank of attempt {attempt} is left: {proof}.",
            failed="Could not prove that all ranks are gone: {why}.",
        ),
    ),
    Action(
        name="freeze_nodes",
        about="Let automation quarantine, drain and release no node for a while: one cause, one answer.",
        effect=Effect.ACTS,
        limit_s=60,
        gives=frozenset({"frozen_until"}),
        undo="thaw_nodes",
        params={
            "length": Param(kind=Kind.DURATION, about="it ends by itself after so long", default=FREEZE_S, most=DAY_S)
        },
        words=Words(
            next="let automation move no node for a while",
            doing="freezing what automation does to nodes",
            done="Automation moves no node until {frozen_until}.",
            failed="Could not freeze what automation does to nodes: {why}.",
        ),
    ),
    Action(
        name="thaw_nodes",
        about="Let automation move nodes again, where this runbook had frozen that.",
        effect=Effect.ACTS,
        limit_s=60,
        words=Words(
            next="let automation move nodes again",
            doing="letting automation move nodes again",
            done="Automation may move nodes again.",
            failed="Could not let automation move nodes again: {why}.",
        ),
    ),
    Action(
        name="await_spares",
        about="Wait until enough spares are free again and tell so; gives way to anything more urgent.",
        effect=Effect.WATCHES,
        limit_s=30 * DAY_S,
        optional=True,
        patient=True,
        gives=frozenset({"spares"}),
        params={"count": Param(kind=Kind.COUNT, about="how many spares", default=1, least=1, most=10_000)},
        words=Words(
            waits_for="spares",
            next="tell when enough spares are free again",
            doing="waiting until enough spares are free again",
            done="The buffer is full again: {spares} spares are free.",
            failed="The buffer was not refilled: {why}.",
        ),
    ),
    Action(
        name="probe_storage",
        about="Have the launcher read the checkpoints' storage and a node write to it; go on only once both can.",
        effect=Effect.LOOKS,
        limit_s=60,
        retries=10,
        by_launcher=True,
        gives=frozenset({"storage_answers"}),
        words=Words(
            waits_for="the storage to answer",
            next="try whether the storage answers",
            doing="trying whether the storage answers",
            done="The storage answers: {found} checkpoints were read, and {witness}.",
            failed="The storage does not answer: {why}.",
        ),
    ),
    Action(
        name="check_drill",
        about="Go on only if a fault can be afforded now: nothing is open, a spare is free, little would be lost.",
        effect=Effect.LOOKS,
        limit_s=60,
        gives=frozenset({"victim"}),
        params={
            "exposure": Param(
                kind=Kind.DURATION, about="training that the fault may cost at most", default=3600.0, most=DAY_S
            ),
            "spares": Param(kind=Kind.COUNT, about="spares that must be free", default=1, most=10_000),
        },
        words=Words(
            next="look whether a fault can be afforded now",
            doing="looking whether a fault can be afforded now",
            done="A fault can be afforded now: {why}.",
            failed="No drill now: {why}.",
        ),
    ),
    Action(
        name="hurt_rank",
        about="Kill or freeze one rank on purpose, through its node's agent and where that agent allows it.",
        effect=Effect.ACTS,
        limit_s=30,
        needs=frozenset({"victim", "fault"}),
        gives=frozenset({"hurt_at"}),
        words=Words(
            waits_for="the node's agent",
            next="hurt one rank on purpose",
            doing="drill: {fault} of rank {rank} on {node}",
            done="Drill: {fault} of rank {rank} on {node}.",
            failed="The drill hurt nothing: {why}.",
        ),
    ),
    Action(
        name="await_recovery",
        about="Watch what the fault is answered with until the run is further than before, and measure it.",
        effect=Effect.WATCHES,
        limit_s=3600,
        beside=True,
        needs=frozenset({"hurt_at"}),
        gives=frozenset({"detected_s", "resumed_s"}),
        words=Words(
            waits_for="the run to recover",
            next="measure how the run recovers",
            doing="watching how the run recovers",
            done="Drill over: named {named} after {detected_s} s, training again after {resumed_s} s, "
            "{steps_lost} steps lost.",
            failed="The drill was not recovered from: {why}.",
        ),
    ),
)
