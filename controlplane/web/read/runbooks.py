"""Everything that the pages of the runbooks show."""

from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Window
from django.db.models.functions import RowNumber

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.modes import least
from controlplane.domain.recovery.runbook import Runbook
from controlplane.incidents.models import Incident
from controlplane.runbooks import registry, trial
from controlplane.runbooks.models import Definition, Execution, ExecutionState, RunbookMode, StepRun
from controlplane.runs.models import Run, RunState
from controlplane.web.present import badges, words
from controlplane.web.present import runbook as present
from controlplane.web.present import trial as trials
from controlplane.web.present.buttons import May, needs

LAST_USES = 20
MAX_VERSIONS = 20
MAX_TRIED = 30
MAX_RUNS = 500

_Version = tuple[int, str, datetime | None, dict[str, str]]


def index() -> dict[str, Any]:
    """Read the list: broken files first, then every runbook in force."""
    found, used, said = registry.loaded(), _uses(), _said()
    ordered = sorted(found.catalog.runbooks.values(), key=lambda one: (one.code, one.id))
    kept = {one.source for one in ordered}
    return {
        "broken": [
            {"file": _file(source), "problems": problems, "kept": source in kept}
            for source, problems in sorted(found.problems.items())
        ],
        "rows": [_row(one, used.get(one.id, []), said.get(one.id, [])) for one in ordered],
    }


def _row(runbook: Runbook, used: list[Execution], said: list[RunbookMode]) -> dict[str, Any]:
    return {
        "runbook": runbook,
        "answers": present.classes(runbook),
        **_mode(runbook, said),
        "uses": present.uses([_ended(one) for one in used]),
    }


def _said() -> dict[str, list[RunbookMode]]:
    """Return what people set each runbook to."""
    found: dict[str, list[RunbookMode]] = {}
    for row in RunbookMode.objects.select_related("run").order_by("run__name"):
        found.setdefault(row.runbook, []).append(row)
    return found


def _mode(runbook: Runbook, said: list[RunbookMode]) -> dict[str, Any]:
    """Say how far it goes on any run, and where people hold it back further."""
    if not runbook.enabled:
        return {"mode": badges.DISABLED, "held_back": []}
    for_all = [row.mode for row in said if row.run is None]
    return {
        "mode": badges.of(badges.MODE, least((runbook.mode, *for_all))),
        "held_back": [
            f"{row.mode} on {row.run.name if row.run else 'all runs'}, by {row.by}" for row in said
        ],
    }  # fmt: skip


def _file(source: str) -> str:
    """Name a file as the operator knows it: ours from our own folder on, others whole."""
    return str(Path(source).relative_to(settings.ROOT)) if Path(source).is_relative_to(settings.ROOT) else source


def _ended(one: Execution) -> tuple[str, float]:
    return one.state, ((one.finished_at or one.created_at) - one.created_at).total_seconds()


def _uses(name: str | None = None) -> dict[str, list[Execution]]:
    """Return the last ended uses of each runbook; a proposal that never began is none."""
    began = Exists(StepRun.objects.filter(execution=OuterRef("pk")))
    rows = Execution.objects.filter(began, finished_at__isnull=False).exclude(state=ExecutionState.REJECTED)
    rows = rows.filter(runbook=name) if name else rows
    place = Window(RowNumber(), partition_by=F("runbook"), order_by=F("pk").desc())
    found: dict[str, list[Execution]] = {}
    for one in rows.annotate(place=place).filter(place__lte=LAST_USES).select_related("run").order_by("-pk"):
        found.setdefault(one.runbook, []).append(one)
    return found


def load(name: str) -> tuple[Runbook, bool]:
    """Return a runbook and whether it is in force; one whose file is gone as it was last used."""
    found = registry.catalog().runbooks.get(name)
    if found is not None:
        return found, True
    kept = Definition.objects.filter(runbook=name).order_by("-kept_at", "-pk").first()
    if kept is None:
        raise NotFound(f"no runbook is called {name}")
    return registry.thaw(kept.documents, name), False


def page(name: str, may: May, now: datetime) -> dict[str, Any]:
    """Read the page of one definition for one viewer."""
    runbook, in_force = load(name)
    used = _uses(name).get(name, [])
    return {
        "runbook": runbook,
        "in_force": in_force,
        **_mode(runbook, _said().get(name, [])),
        "file": _file(runbook.source),
        "problems": registry.loaded().problems.get(runbook.source, []),
        "triggers": present.triggers(runbook.answers),
        "limits": present.limits(runbook.limits),
        "steps": present.steps(runbook),
        "lines": runbook.text.splitlines(),
        "versions": _versions(runbook, in_force=in_force),
        "uses": present.uses([_ended(one) for one in used]),
        "used": [_use(one) for one in used],
        "past": _past(),
        "start": _start(runbook, may) if in_force and runbook.enabled and runbook.start is not None else None,
        "now": now,
    }


def _use(one: Execution) -> dict[str, Any]:
    return {
        "execution": one,
        "badge": badges.of(badges.EXECUTION, one.state),
        "took": words.span(_ended(one)[1]),
    }


def _versions(runbook: Runbook, *, in_force: bool) -> list[dict[str, Any]]:
    """Return the definitions that were used, newest first, each with what it changed."""
    kept = list(Definition.objects.filter(runbook=runbook.id).order_by("-kept_at", "-pk")[: MAX_VERSIONS + 1])
    chain: list[_Version] = [(one.version, one.digest, one.kept_at, one.documents) for one in kept]
    if in_force and all(digest != runbook.digest for _, digest, _, _ in chain):
        chain = [(runbook.version, runbook.digest, None, registry.texts(runbook)), *chain]
    return [
        {
            "version": version,
            "digest": digest,
            "since": since,
            "now": in_force and digest == runbook.digest,
            "diff": present.changes(chain[place + 1][3], documents, runbook.source) if place + 1 < len(chain) else [],
            "first": place + 1 == len(chain),
        }
        for place, (version, digest, since, documents) in enumerate(chain[:MAX_VERSIONS])
    ]


def _start(runbook: Runbook, may: May) -> dict[str, Any]:
    """Read the form by which a person starts it."""
    over = (RunState.COMPLETED, RunState.STOPPED)
    return {
        "needs": needs("start_runbook", may),
        "runs": list(Run.objects.exclude(state__in=over).order_by("name").values_list("name", flat=True)[:MAX_RUNS]),
        "inputs": [
            {"name": name, "about": param.about, "choices": param.choices, "required": param.required,
             "default": "" if param.default is None else param.default}
            for name, param in (runbook.start or {}).items()
        ],
    }  # fmt: skip


def _past() -> list[Incident]:
    """Return the incidents that a runbook may be tried on, newest first."""
    about_runs = Incident.objects.exclude(run=None).exclude(confirmed_at=None)
    return list(about_runs.select_related("run")[:MAX_TRIED])


def tried(name: str, incident_id: int, now: datetime) -> dict[str, Any]:
    """Read what a runbook would do now about a past incident."""
    incident = Incident.objects.select_related("run").filter(pk=incident_id).first()
    if incident is None:
        raise NotFound(f"there is no incident {incident_id}")
    runbook, _ = load(name)
    return {"tried": incident, "trial": trials.words_of(runbook, trial.of(runbook, incident, now), incident)}
