"""Everything that an incident page shows."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.checkpoints.queries import restore_point
from controlplane.domain.access.policy import least_role
from controlplane.domain.diagnosis.classes import class_of
from controlplane.domain.diagnosis.clearing import clears
from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.execution import FINAL
from controlplane.incidents.models import ActRecord, Finding, Incident, IncidentState
from controlplane.incidents.parts import is_part
from controlplane.incidents.queries import stack_groups
from controlplane.runbooks import answering, registry
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run
from controlplane.web.present import badges, buttons, cost, needs, words
from controlplane.web.present import incident as present
from controlplane.web.present.acts import told as act_words
from controlplane.web.present.buttons import May
from controlplane.web.present.execution import Progress, progress, resume_step
from controlplane.web.present.words import Badge
from controlplane.web.read import approval, told

ACT_SCORE = 4.0
ACT_MARGIN = 2.0
MAX_EVIDENCE = 12
MAX_FINDINGS = 20
MAX_ACTS = 20
SIMILAR = 3
MAX_EARLIER = 5
MAX_PARTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A candidate of the diagnosis; `share` is its score in percent of the best, or of what suffices to act if more."""

    entity: str
    url: str
    share: int
    words: str
    clears: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActLine:
    """Something that was done or proposed."""

    at: datetime
    badge: Badge
    words: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """A finding with the numbers that tripped it."""

    badge: Badge
    words: str
    entity: str
    detector: str
    found_at: datetime
    evidence: list[dict[str, str]]
    facts: str


def load(incident_id: int) -> Incident:
    """Return the incident with its run, or raise `NotFound`."""
    found = Incident.objects.select_related("run").filter(pk=incident_id).first()
    if found is None:
        raise NotFound(f"there is no incident {incident_id}")
    return found


def newest_execution(incident: Incident) -> Execution | None:
    """Return the execution that matters now: the last one that was made."""
    return Execution.objects.filter(incident=incident).order_by("-pk").first()


def state(incident: Incident, now: datetime) -> dict[str, Any]:
    """Read what the state card and the side of the page show; the same for every viewer."""
    execution = newest_execution(incident)
    run = incident.run
    going = progress_of(execution, now)
    card = present.card(incident, run, cost.of_incident(incident, _gpus(run), now), going, need(incident, execution))
    findings = list(incident.findings.order_by("found_at")[:MAX_FINDINGS])
    return {
        "incident": incident,
        "run": run,
        "card": card,
        "countdown": words.countdown(card.until, now) if card.until else "",
        "restart": _restart(run, execution),
        "execution": execution,
        "runbook": registry.readable(execution) if execution else None,
        "progress": going,
        "meaning": words.sentence(class_of(incident.klass).meaning),
        "suspects": _suspects(incident),
        "earlier": _earlier(incident, execution),
        "done": [_act(row) for row in incident.acts.order_by("-at", "-pk")[:MAX_ACTS]],
        "cleared": [_spoken(entity) for entity in incident.cleared],
        "findings": [_finding(found) for found in findings],
        "ranks": _ranks(findings),
        "stacks": stack_groups(incident),
        "similar": _similar(incident),
        "whole": incident.explained_by if is_part(incident) else None,
        "parts": incident.explained.exclude(run=None).select_related("run").order_by("pk")[:MAX_PARTS],
        **told.of(incident, now),
        "acts_signature": signature(incident, execution),
        "now": now,
    }


def _earlier(incident: Incident, newest: Execution | None) -> list[dict[str, Any]]:
    """Read what was tried before the execution that matters now, newest first."""
    if newest is None:
        return []
    before = Execution.objects.filter(incident=incident, pk__lt=newest.pk).order_by("-pk")[:MAX_EARLIER]
    return [
        {"execution": one, "title": registry.readable(one).title, "badge": badges.of(badges.EXECUTION, one.state)}
        for one in before
    ]


def signature(incident: Incident, execution: Execution | None) -> str:
    """Name what the buttons depend on; a page fetches its own when this changes."""
    going = f"{execution.pk}.{execution.state}.{approval.signature(execution)}" if execution else "none"
    run = f"{incident.run.held}.{incident.run.mode}" if incident.run else ""
    return f"{incident.state}.{bool(incident.acknowledged_at)}.{going}.{run}.{incident.decision.get('held_by')}"


def acts(
    incident: Incident, execution: Execution | None, may: May, now: datetime, *, viewer: str = ""
) -> dict[str, Any]:
    """Read the buttons of one viewer."""
    card = approval.card(execution, may, now, viewer=viewer)
    return {
        "incident": incident,
        "acts_signature": signature(incident, execution),
        "acts_url": True,
        "thumb": buttons.thumb(incident, execution, may, asks=bool(card.get("question"))),
        "more": _more(incident, execution, may),
        "note_needs": "" if may("note") else str(least_role("note")),
        "now": now,
        **card,
    }


def _more(incident: Incident, execution: Execution | None, may: May) -> list[buttons.Button]:
    stop = [buttons.stop_runbook(execution, may)] if execution and execution.state not in FINAL else []
    return stop + (buttons.run(incident.run, may) if incident.run else [])


def progress_of(execution: Execution | None, now: datetime) -> Progress | None:
    """Put an execution into words, if there is one."""
    if execution is None:
        return None
    return progress(execution, list(execution.steps.all()), registry.readable(execution), now)


def need(incident: Incident, execution: Execution | None) -> needs.Need:
    """Say who has to act; `execution` is the newest one of the incident."""
    asks = execution is not None and registry.readable(execution).steps and answering.question(execution) is not None
    return needs.of(incident, incident.run, execution, asked=bool(asks))


def _gpus(run: Run | None) -> int:
    return run.nodes_wanted * run.gpus_per_node if run else 0


def _restart(run: Run | None, execution: Execution | None) -> str:
    """Say where the restart begins and what it loses: as it would be now, and as it was chosen once it is."""
    if run is None or execution is None or execution.state in FINAL:
        return ""
    choice = restore_point(run)
    step, lost = resume_step(execution), choice.lost_steps
    if step is None:
        step = choice.step
    else:
        lost = max(0, int(execution.context.get("high_water", run.high_water_step)) - step)
    begin = f"from step {words.number(step)}" if step else "from the beginning"
    return f"{begin}, losing {words.plural(lost, 'step')}"


def _suspects(incident: Incident) -> list[Suspect]:
    best = max([ACT_SCORE, *(float(blame.get("score", 0)) for blame in incident.blamed)])
    return [_suspect(blame, best) for blame in incident.blamed]


def _suspect(blame: dict[str, Any], best: float) -> Suspect:
    entity, score, margin = str(blame.get("entity", "")), float(blame.get("score", 0)), float(blame.get("margin", 0))
    enough = score >= ACT_SCORE and margin >= ACT_MARGIN
    place = f"ahead by {margin:.1f}" if margin >= 0 else f"behind by {-margin:.1f}"
    name = entity.removeprefix("node:") if entity.startswith("node:") else ""
    return Suspect(
        entity=_spoken(entity),
        url=f"/nodes/{name}/" if name else "",
        share=max(2, min(100, round(100 * score / best))),
        words=f"score {score:.1f}, {place}: {'enough' if enough else 'not enough'} to act on",
        clears=words.sentence(clears(entity)),
    )


def _act(row: ActRecord) -> ActLine:
    return ActLine(
        at=row.at,
        badge=badges.of(badges.ACT, "proposed" if row.proposed else "done"),
        words=act_words(row.do, row.node, row.args),
        why=words.sentence(row.why),
    )


def _spoken(entity: str) -> str:
    """Write `rank:2` as `rank 2`."""
    return entity.replace(":", " ", 1)


def _finding(found: Finding) -> FindingLine:
    strongest = sorted(found.evidence, key=lambda line: -abs(float(line.get("weight", 0))))[:MAX_EVIDENCE]
    return FindingLine(
        badge=badges.of(badges.STAGE, found.stage),
        words=words.sentence(class_of(found.klass).title),
        entity=_spoken(found.entity),
        detector=found.detector,
        found_at=found.found_at,
        evidence=[
            {"weight": f"{float(line.get('weight', 0)):+.1f}".replace("-", "−"), "text": str(line.get("text", ""))}
            for line in strongest
        ],
        facts=json.dumps(found.facts, indent=1, ensure_ascii=False) if found.facts else "",
    )


def _ranks(findings: Iterable[Finding]) -> list[int]:
    entities = [found.entity for found in findings]
    entities += [str(line.get("entity", "")) for found in findings for line in found.evidence]
    named = {int(match[1]) for entity in entities if (match := re.fullmatch(r"rank:(\d{1,9})", entity))}
    return sorted(named)[:200]


def _similar(incident: Incident) -> list[dict[str, Any]]:
    past = Incident.objects.filter(klass=incident.klass, run=incident.run, state=IncidentState.RESOLVED)
    rows = past.exclude(pk=incident.pk).prefetch_related("executions")[:SIMILAR]
    return [
        {"id": row.pk, "title": row.title, "opened_at": row.opened_at, "ended": _ended(row)} for row in rows
    ]  # fmt: skip


def _ended(row: Incident) -> str:
    execution = max(row.executions.all(), key=lambda one: one.pk, default=None)
    how = f"{execution.runbook} {execution.state}" if execution else "no runbook"
    took = (row.mitigated_at or row.resolved_at or row.opened_at) - row.began_at
    return f"{how}, {words.span(took)} until it trained again"
