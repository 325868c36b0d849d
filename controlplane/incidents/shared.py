"""Tell what several runs share as one incident of the fleet; theirs are its consequences.

Each run's incident is answered by its own runbooks as ever. People are called once: for
the fleet's incident, which takes over what was asked of them for one of its parts.
"""

from collections.abc import Iterable
from datetime import datetime

from controlplane.domain.detection.fleet_places import listed
from controlplane.domain.diagnosis import shared as domain
from controlplane.domain.diagnosis.shared import (
    OF_CHANGES,
    OF_PLACES,
    OF_STORAGE,
    PLACES,
    SIGHT,
    STORAGE,
    Shared,
    Trouble,
)
from controlplane.domain.findings import Finding as Judgement
from controlplane.domain.findings import Stage
from controlplane.fleet import queries as fleet
from controlplane.incidents.models import Finding, Incident, IncidentState
from controlplane.incidents.parts import is_part
from controlplane.incidents.queries import silenced
from controlplane.incidents.record import record
from controlplane.incidents.telling import shown, stream, tell_both
from controlplane.notify import actions as notify
from controlplane.runs.book import Book
from controlplane.runs.times import seconds

DETECTOR = "D-08"
KEY = "fleet/shared/"
MAX_NAMED = 64
_WANTED = (*OF_PLACES, OF_STORAGE, OF_CHANGES, SIGHT)


def link(now: datetime, *, book: Book) -> list[Incident]:
    """Open, widen or end the fleet's incidents of what runs share; return those that moved.

    Part of the caller's transaction, which holds the lease on the fleet's reducer.
    """
    going = list(Incident.objects.filter(klass__in=_WANTED, state=IncidentState.OPEN).select_related("run"))
    ours = [one for one in going if one.run is not None]
    sure = [one for one in ours if one.klass != SIGHT and one.confirmed_at is not None]
    several = len({one.run_id for one in sure}) > 1
    groups = domain.shared([_trouble(one) for one in sure]) if several else []
    moved = {one.pk: one for one in (*_widened(groups, sure, now, book), *_over(now, book))}
    _hush(moved, now)
    _join_sight(going, book)
    return list(moved.values())


def _standing() -> list[Finding]:
    rows = Finding.objects.filter(key__startswith=KEY, incident__run=None).exclude(stage=Stage.CLEARED)
    return list(rows.exclude(incident__state=IncidentState.RESOLVED).select_related("incident__run"))


def _trouble(incident: Incident) -> Trouble:
    name = incident.run.name if incident.run else ""
    return Trouble(
        number=incident.pk, run=name, klass=incident.klass, began=seconds(incident.began_at), parts=_parts(incident)
    )


def _parts(incident: Incident) -> frozenset[str]:
    rows = [row for row in incident.findings.all() if row.stage != Stage.CLEARED and row.klass == incident.klass]
    if incident.klass == OF_CHANGES:
        lines = [line for row in rows for line in row.evidence if line.get("kind") == "change"]
        return frozenset(f"change:{line['text']}" for line in lines)
    if incident.klass == OF_STORAGE:
        return _storages(rows) if incident.severity == "critical" else frozenset()
    nodes = fleet.nodes_for({name for row in rows for name in _nodes(row)})
    places = {(kind, str(node.labels[kind])) for node in nodes for kind in PLACES if node.labels.get(kind)}
    return frozenset(f"{kind}:{name}" for kind, name in places if fleet.differs(kind, name))


def _storages(rows: Iterable[Finding]) -> frozenset[str]:
    """Name the storages of a run's trouble; one without a name is some storage."""
    names = {str(name) for row in rows for name in row.facts.get("names") or []}
    return frozenset(f"{STORAGE}{name}" for name in names) or frozenset({STORAGE})


def _nodes(row: Finding) -> list[str]:
    """Name the nodes that a finding is about: listed, or blamed by its evidence."""
    told = row.facts.get("nodes") or []
    blamed = [str(line["entity"]) for line in row.evidence if str(line["entity"]).startswith("node:")]
    return [str(name) for name in told][:MAX_NAMED] + [name.removeprefix("node:") for name in blamed][:MAX_NAMED]


def _widened(groups: Iterable[Shared], ours: list[Incident], now: datetime, book: Book) -> list[Incident]:
    """Record each group as a finding of the fleet, under the key of its oldest member, and hang the members on it."""
    moved = []
    for group in groups:
        members = [one for one in ours if one.pk in {trouble.number for trouble in group.troubles}]
        fresh = [one for one in members if not is_part(one)]
        parent = next((one.explained_by for one in members if is_part(one)), None)
        if all(_put_aside(one) for one in fresh):
            continue
        told = parent.findings.filter(key__startswith=KEY).first() if parent else None
        found = record(None, [_finding(group, members, now, told)], now, book=book)
        moved += found
        for incident in fresh:
            join(incident, found[0], book)
    return moved


def _put_aside(incident: Incident) -> bool:
    """Say whether a person resolved the whole that it was part of: it opens again only with another part."""
    whole = Finding.objects.filter(key__startswith=KEY, incident__explained=incident, incident__run=None)
    return whole.exclude(stage=Stage.CLEARED).filter(incident__state=IncidentState.RESOLVED).exists()


def _finding(group: Shared, members: list[Incident], now: datetime, told: Finding | None) -> Judgement:
    urgent = any(one.severity == "critical" for one in members)
    return Judgement(
        key=told.key if told else f"{KEY}{group.troubles[0].number}",
        detector=DETECTOR, klass=group.klass, stage=Stage.CONFIRMED, entity=f"domain:{group.part.partition(':')[2]}",
        began=group.troubles[0].began, at=seconds(now), severity="critical" if urgent else "warning",
        sentence=domain.words(group),
        facts={"runs": list(group.runs), "part": group.part, "fingerprint": f"shared {group.part}", "cause": ""},
    )  # fmt: skip


def _hush(moved: dict[int, Incident], now: datetime) -> None:
    """Wake nobody for what silenced runs alone share, and people again once one of the silences is over."""
    for row in _standing():
        whole = moved.get(row.incident_id, row.incident)
        parts = list(whole.explained.filter(state=IncidentState.OPEN).select_related("run"))
        quiet = silenced(None, now) or (bool(parts) and all(silenced(one.run, now) for one in parts))
        if whole.quiet != quiet:
            Incident.objects.filter(pk=whole.pk).update(quiet=quiet)
            whole.quiet = quiet
            moved[whole.pk] = whole


def join(incident: Incident, parent: Incident, book: Book) -> None:
    """Make a run's incident a consequence of the fleet's; whoever was to be called for it is called for the fleet's."""
    Incident.objects.filter(pk=incident.pk).update(explained_by=parent)
    incident.explained_by = parent
    notify.hand_over(stream(incident), stream(parent))
    told = f"This is part of incident {parent.pk} of the fleet: {parent.title}. People are called for that one."
    tell_both(incident, "risen", told, book, key=f"incident:{incident.pk}:part:{parent.pk}")
    shown(parent)


def _join_sight(going: list[Incident], book: Book) -> None:
    """When the fleet is not heard, that a run is not heard is the same outage."""
    parent = next((one for one in going if one.klass == SIGHT and one.run is None), None)
    for incident in going:
        if parent is not None and incident.klass == SIGHT and incident.run is not None and not is_part(incident):
            join(incident, parent, book)


def _over(now: datetime, book: Book) -> list[Incident]:
    """End what no run is hurt by any more."""
    ended = []
    for row in _standing():
        if not row.incident.explained.filter(state=IncidentState.OPEN).exists():
            why = f"no run is hurt any more by what was shared: {listed(sorted(row.facts.get('runs', [])))}"
            ended.append(
                Judgement(
                    key=row.key, detector=DETECTOR, klass=row.klass, stage=Stage.CLEARED, entity=row.entity,
                    began=seconds(row.began_at), at=seconds(now), severity="info", sentence=why,
                )
            )  # fmt: skip
    return record(None, ended, now, book=book)
