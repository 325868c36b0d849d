"""Find out of the ledger whether automation contradicts itself about a node (domain.fleet.verdicts)."""

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, QuerySet

from controlplane.domain.fleet import verdicts
from controlplane.domain.fleet.verdicts import Verdict
from controlplane.quarantine.models import LedgerEntry

PERSON = "person"
PREFIX = "conflict:"
FROZEN = timedelta(seconds=verdicts.FROZEN_S)


def frozen(node: str, now: datetime) -> LedgerEntry | None:
    """Return the contradiction that keeps automation from moving a node; a person's move settles it."""
    noted = _since_a_person(node).filter(key__startswith=PREFIX, at__gt=now - FROZEN)
    return noted.first()


def all_frozen(now: datetime) -> dict[str, LedgerEntry]:
    """Return every node that automation may not move now, with the contradiction that keeps it from that."""
    settled = LedgerEntry.objects.filter(node=OuterRef("node"), actor_kind=PERSON, pk__gt=OuterRef("pk"))
    noted = LedgerEntry.objects.filter(~Exists(settled), key__startswith=PREFIX, at__gt=now - FROZEN)
    return {entry.node.name: entry for entry in noted.select_related("node").order_by("at", "pk")}


def contradicted(node: str, old: str, new: str, incident: int | None, now: datetime) -> LedgerEntry | None:
    """Return the move of automation that a move from `old` to `new` contradicts, None where it contradicts none."""
    blames = verdicts.blames(old, new)
    if blames is None:
        return None
    moves = {_verdict(entry): entry for entry in _judging(node, now)}
    found = verdicts.contradicted(Verdict(at=now.timestamp(), blames=blames, incident=incident), list(moves))
    return moves[found] if found else None


def _judging(node: str, now: datetime) -> list[LedgerEntry]:
    recent = _since_a_person(node).filter(at__gt=now - timedelta(seconds=verdicts.FRESH_S))
    moves = recent.exclude(from_state=F("to_state")).order_by("at", "pk")
    return [entry for entry in moves if verdicts.blames(entry.from_state, entry.to_state) is not None]


def _verdict(entry: LedgerEntry) -> Verdict:
    blames = bool(verdicts.blames(entry.from_state, entry.to_state))
    return Verdict(at=entry.at.timestamp(), blames=blames, incident=entry.incident_id)


def _since_a_person(node: str) -> QuerySet[LedgerEntry]:
    history = LedgerEntry.objects.filter(node__name=node).order_by("-at", "-pk")
    last = history.filter(actor_kind=PERSON).order_by("-pk").first()  # clocks differ, and are set
    return history.filter(pk__gt=last.pk) if last else history
