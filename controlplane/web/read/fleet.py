"""Everything that the fleet overview shows."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from controlplane.checkpoints.queries import newest_complete
from controlplane.events.queries import step_series
from controlplane.fleet import hot
from controlplane.fleet import queries as nodes
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.parts import PART
from controlplane.quarantine import conflicts
from controlplane.runs.models import Attempt, Run, RunState
from controlplane.web.present import cost, fleet, spark, words
from controlplane.web.present import incident as present_incident
from controlplane.web.present import run as present_run
from controlplane.web.present.needs import Need
from controlplane.web.read import account, series, unrecognised
from controlplane.web.read.incident import need, newest_execution, progress_of

SPARK_POINTS = 60
SPARK_WINDOW = timedelta(minutes=30)
MAX_RUNS = 100
FRESH = timedelta(seconds=60)


def state(now: datetime) -> dict[str, Any]:
    """Read the overview: its sentence, what needs a person, runs, and the map of the nodes."""
    runs = list(Run.objects.order_by("state", "name")[:MAX_RUNS])
    opened = list(Incident.objects.filter(state=IncidentState.OPEN).select_related("run"))
    parts = set(Incident.objects.filter(PART, state=IncidentState.OPEN).values_list("pk", flat=True))
    hurt = {one.run_id for one in opened if halts(one)}
    unseen = {one.run_id for one in opened if blinds(one)}
    every = hot.heard(nodes.all_nodes())
    cards = [_card(one, now) for one in opened]
    whole = sorted((one for one in cards if one["incident"].pk not in parts), key=_price, reverse=True)
    return {
        "standing": _standing(runs, cards),
        "quiet_words": "" if opened else _quiet(now),
        "groups": [
            ("Needs you", [one for one in whole if one["need"] is Need.PERSON]),
            ("Needs nobody", [one for one in whole if one["need"] is not Need.PERSON]),
        ],
        "rows": [row(run, now, hurt=run.pk in hurt, unseen=run.pk in unseen) for run in runs],
        "racks": fleet.racks(every, now, frozen=conflicts.all_frozen(now)),
        "counts": fleet.counts(every),
        "spares": _spares(now),
        "base_url": settings.BASE_URL,
        **unrecognised.shown(None),
        "now": now,
    }


def _spares(now: datetime) -> str:
    count, silent = fleet.spares(hot.heard(nodes.spares()), now)
    return f"{words.plural(count, 'spare')} left{silent}"


def _standing(runs: Sequence[Run], cards: Iterable[dict[str, Any]]) -> fleet.Standing:
    asks: dict[int | None, list[Need]] = {}
    for one in cards:
        asks.setdefault(one["incident"].run_id, []).append(one["need"])
    own = asks.pop(None, [])
    return fleet.standing(runs, {run: needs for run, needs in asks.items() if run is not None}, own)


def halts(incident: Incident) -> bool:
    """Whether an open incident says for certain that its run makes no steps."""
    known = incident.confirmed_at is not None and incident.severity == "critical"
    return known and incident.klass not in present_incident.BLIND | present_incident.SLOW


def blinds(incident: Incident) -> bool:
    """Whether an open incident says that nobody hears of its run, so what is shown of it is old."""
    return incident.klass == "blind"


def row(run: Run, now: datetime, *, hurt: bool, unseen: bool) -> dict[str, Any]:
    """Read one line of the runs table."""
    attempts = list(Attempt.objects.filter(run=run).order_by("-number")[:200])[::-1]
    points = step_series(run.name, since=now - SPARK_WINDOW, limit=SPARK_POINTS)
    durations = [point.duration_ms for point in points if point.duration_ms is not None]
    still = present_run.stands_still(run, attempts[-1] if attempts else None, hurt=hurt)
    fresh = bool(points) and run.state == RunState.RUNNING and not (still or unseen)
    rate = series.rate(points) if fresh else None
    return {
        "run": run,
        "badge": present_run.badge_of(run, still=still, unseen=unseen),
        "throughput": f"{words.number(rate)} {series.unit(points)}" if rate is not None else "–",
        "spark": spark.points(durations),
        "spark_count": len(durations),
        "goodput": account.goodput(run, now),
        "restore": restore_words(run, now),
        "attempt": attempts[-1].number if attempts else "–",
    }


def restore_words(run: Run, now: datetime) -> str:
    """Say how old the newest complete checkpoint is."""
    saved = newest_complete(run)
    if saved is None:
        return "none yet"
    return f"step {words.number(saved.step)}, {words.age(saved.completed_at, now)}"


def _card(incident: Incident, now: datetime) -> dict[str, Any]:
    run = incident.run
    gpus = run.nodes_wanted * run.gpus_per_node if run else 0
    execution = newest_execution(incident)
    going, asks = progress_of(execution, now), need(incident, execution)
    price = cost.of_incident(incident, gpus, now)
    return {"incident": incident, "need": asks, "card": present_incident.card(incident, run, price, going, asks)}


def _price(item: dict[str, Any]) -> tuple[bool, int]:
    price = item["card"].cost
    return (item["incident"].severity == "critical", price.gpus if price else 0)


def _quiet(now: datetime) -> str:
    last = Incident.objects.exclude(resolved_at=None).order_by("-resolved_at").first()
    if last is None or last.resolved_at is None:
        return "No incident so far."
    return f"Last incident resolved {words.age(last.resolved_at, now)}: {words.sentence(last.title)}."
