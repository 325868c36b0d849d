"""What becomes of the trouble that was found while automation might not act.

Skipped trouble is not closed: it stays for people, and only a later attempt is answered
again. What was under way before goes on in either case, after it has read the world anew.
"""

from datetime import datetime

from django.db.models import QuerySet

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import shown, stream
from controlplane.runbooks import approvals, fleet_answers
from controlplane.runbooks.models import Execution, Skip
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Run


def found_since(run: Run | None, since: datetime) -> QuerySet[Incident]:
    """Return the open incidents of a run, or of all, that were found since then."""
    found = Incident.objects.filter(state=IncidentState.OPEN, opened_at__gte=since)
    return found.filter(run=run) if run is not None else found


def skip(run: Run | None, since: datetime, by: str, now: datetime) -> int:
    """Have automation leave alone what was found since then, and tell each incident; returns how many."""
    book = Book(now, "person", by)
    left = [incident for incident in found_since(run, since).select_related("run") if _skip(incident, by, now, book)]
    book.write()
    return len(left)


def _skip(incident: Incident, by: str, now: datetime, book: Book) -> bool:
    newest = runs.newest_attempt(incident.run) if incident.run else None
    attempt = newest.number if newest else 0
    _, new = Skip.objects.get_or_create(incident=incident, attempt=attempt, defaults={"by": by, "at": now})
    if new:
        told = f"{by} left this to people: it was found while automation might not act"
        approvals.withdraw(Execution.objects.filter(incident=incident), told, now)
        book.tell(stream(incident), "decision", full_stop(told))
        shown(incident)
    return new


def process(now: datetime) -> None:
    """Answer what the fleet's incidents ask for; those of runs are considered by their next sweep."""
    fleet_answers.answer_open(now)
