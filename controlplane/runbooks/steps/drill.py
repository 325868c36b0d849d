"""R-15: hurt a live run on purpose, and measure what the hurt is answered with.

A drill is safe because it refuses: with anything open, without a spare, or with much to
lose it does nothing. What it does goes through the node's own agent, which allows it or
not. Nobody is woken by it, and it counts as no interruption; if the run does not come
back, people are woken after all.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.checkpoints import queries as checkpoints
from controlplane.domain.chronicle.words import count
from controlplane.domain.recovery.acts import Do
from controlplane.fleet.models import CommandState
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import stream
from controlplane.runbooks.facts import spares
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Attempt, AttemptState
from controlplane.runs.times import moment, seconds

POLL_S = 1.0
WITHIN_S = 20.0
FROZEN_S = 600.0
"""A frozen rank that nobody ends goes on by itself after so long."""
QUIET_MIN = 30.0
CRASH, HANG = "crash", "hang"


class CheckDrill(Step):
    """Look whether a fault can be afforded, and choose whom to hurt."""

    def look(self, turn: Turn) -> Outcome:
        """Refuse with the reason; nothing was touched."""
        why = _unaffordable(turn)
        attempt = turn.broken
        if why or attempt is None:
            return Failed(why or "the run was never launched", retry=False)
        rank = max(attempt.world_size, 1) - 1
        node = attempt.nodes[rank * len(attempt.nodes) // max(attempt.world_size, 1)]
        exposure = checkpoints.exposed(turn.run, turn.now)
        free = count(spares(), "free spare")
        said = f"{free}, and {exposure.seconds:.0f} s of training at stake" if exposure else ""
        return Done({"victim": {"rank": rank, "node": node}, "why": said})


def _unaffordable(turn: Turn) -> str:
    attempt, args = turn.broken, turn.spec.args
    others = Incident.objects.filter(run=turn.run).exclude(state=IncidentState.RESOLVED).exclude(pk=turn.incident.pk)
    if attempt is None or attempt.state != AttemptState.RUNNING or attempt.beyond_at is None:
        return f"{turn.run.name} does not train steadily"
    if others.exists():
        return f"incident {others.values_list('pk', flat=True).first()} of {turn.run.name} is not resolved"
    free = spares()
    if free < args["spares"]:
        return f"{count(free, 'spare')} free, {args['spares']} wanted"
    return _too_much_to_lose(turn, float(args["exposure"]))


def _too_much_to_lose(turn: Turn, most: float) -> str:
    exposure = checkpoints.exposed(turn.run, turn.now)
    if checkpoints.newest_complete(turn.run) is None or exposure is None:
        return f"{turn.run.name} has no complete checkpoint"
    if exposure.seconds > most:
        return f"a fault now would cost {exposure.seconds:.0f} s of training and at most {most:.0f} s are allowed"
    return ""


class HurtRank(Step):
    """Kill or freeze one rank through its node's agent."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the agent; from here on nobody is woken about the run for a while."""
        victim, fault = turn.context["victim"], turn.context["fault"]
        rank, node = int(victim["rank"]), str(victim["node"])
        about = {"run": turn.run.name, "attempt": turn.execution.attempt}
        if fault == HANG:
            turn.command(node, "rank.freeze", {**about, "rank": rank, "length_s": FROZEN_S}, within_s=WITHIN_S)
        else:
            turn.command(node, "ranks.stop", {**about, "ranks": [rank], "grace_s": 0.0}, within_s=WITHIN_S)
        incidents.silence(turn.run, QUIET_MIN, _name(turn), turn.now)
        turn.act(Do.KILL, f"drill: {fault} of rank {rank}", node=node, args={"drill": True, "rank": rank})
        return {"rank": rank, "node": node, "fault": fault, "asked_at": seconds(turn.now)}

    def look(self, turn: Turn) -> Outcome:
        """Be done when the agent says so; an agent that does not allow it says which line would.

        What was not hurt needs no silence; what may have been, unheard, keeps it.
        """
        command = next(iter(turn.commands()), None)
        if command is not None and not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if command is None or not succeeded(command):
            if command is None or command.state != CommandState.EXPIRED:
                incidents.unsilence(turn.run, _name(turn), turn.now)
            return Failed(refusal(command) if command else "the agent was not asked", retry=False)
        return Done({"hurt_at": seconds(command.created_at)})

    def preview(self, turn: Turn) -> str | None:
        """Name the fault."""
        return f"{'freeze' if turn.context.get('fault') == HANG else 'kill'} one rank of the run on purpose"


def _name(turn: Turn) -> str:
    return f"drill {turn.execution.pk}"


class AwaitRecovery(Step):
    """Measure from the hurt on; other runbooks do the work."""

    def look(self, turn: Turn) -> Outcome:
        """Be done once a later attempt is further than the run was, and the incident knows its losses."""
        opened, later = _answered(turn), _later(turn)
        if opened is not None:
            told = f"This is a drill that {turn.execution.approved_by} started; it counts as no interruption."
            turn.book.tell(stream(opened), "note", told, key=f"drill:{turn.execution.pk}:{opened.pk}")
        if opened is None or later is None or later.beyond_at is None or opened.state == IncidentState.OPEN:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return Done(_measured(turn, opened, later))

    def expired(self, turn: Turn) -> Outcome:
        """Wake people: the run has not come back."""
        why = f"the drill on {turn.run.name} was not recovered from within {turn.spec.limit_s / 60:g} min"
        turn.act(Do.PAGE, why)
        return Failed(why, retry=False)


def _answered(turn: Turn) -> Incident | None:
    """Return the incident that the hurt became."""
    since = moment(float(turn.context["hurt_at"]))
    found = Incident.objects.filter(run=turn.run, attempt__gte=turn.execution.attempt).exclude(pk=turn.incident.pk)
    return found.filter(opened_at__gte=since).order_by("opened_at").first()


def _later(turn: Turn) -> Attempt | None:
    later = Attempt.objects.filter(run=turn.run, number__gt=turn.execution.attempt).exclude(beyond_at=None)
    return later.order_by("number").first()


def _measured(turn: Turn, opened: Incident, later: Attempt) -> dict[str, Any]:
    hurt_at = float(turn.context["hurt_at"])

    def after(at: datetime | None) -> float | None:
        return round(seconds(at) - hurt_at, 1) if at else None

    people = opened.executions.exclude(approved_by="").exists()
    return {
        "named": opened.klass.replace("_", " "), "incident": opened.pk, "detected_s": after(opened.confirmed_at),
        "decided_s": after(opened.decided_at), "resumed_s": after(later.first_step_at),
        "steps_lost": opened.losses.get("steps"), "unattended": not people,
    }  # fmt: skip
