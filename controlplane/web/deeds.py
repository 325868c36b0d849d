"""What a one-time link in a message may do: the words its page shows, the right it needs, and the act."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from controlplane.access.links import Link
from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.errors import NotFound
from controlplane.incidents import actions as incidents
from controlplane.incidents import queries
from controlplane.runbooks import approvals, registry
from controlplane.watch import wake


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the page says before anything is done; `will` are the steps that would follow."""

    title: str
    about: str
    button: str
    look: str
    url: str
    will: tuple[str, ...] = ()
    unanswered: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """One purpose of a link; `do` takes link, person, the typed reason and now, and says what was done."""

    right: str
    show: Callable[[Link], Shown]
    do: Callable[[Link, str, str, datetime], str]


def of(link: Link) -> Deed:
    """Find what a link does; `NotFound` when this version does not know it."""
    found = DEEDS.get(link.purpose)
    if found is None:
        raise NotFound(f"no link can {link.purpose}")
    return found


def _show_incident(link: Link) -> Shown:
    incident = queries.incident_numbered(link.number)
    return Shown(
        title=incident.title, about=f"Incident {incident.pk}, {incident.state}.", button="Acknowledge", look="first",
        url=f"/incidents/{incident.pk}/", unanswered="Acknowledging says that you look; automation goes on.",
    )  # fmt: skip


def _acknowledge(link: Link, by: str, _: str, now: datetime) -> str:
    incident = queries.incident_numbered(link.number)
    incidents.acknowledge(incident, by, now)
    return f"You acknowledged incident {incident.pk}. Nothing else changes by that."


def _show_question(link: Link) -> Shown:
    asked = approvals.numbered(link.number)
    execution, title = asked.execution, registry.readable(asked.execution).title
    second = " Two people have to agree." if asked.persons > 1 else ""
    yes = link.purpose == "approve"
    return Shown(
        title=execution.incident.title, about=f"“{title}” asks: {asked.why}.{second}",
        button="Approve" if yes else "Reject", look="first" if yes else "danger",
        url=f"/executions/{execution.pk}/", will=tuple(asked.will),
        unanswered="Without an answer nothing is done.",
    )  # fmt: skip


def _approve(link: Link, by: str, why: str, now: datetime) -> str:
    asked = approvals.numbered(link.number)
    answered = approvals.approve(asked.execution, by, now, why=why, number=asked.pk)
    wake.execution(asked.execution_id)
    return full_stop(answered.told[:1].upper() + answered.told[1:])


def _reject(link: Link, by: str, why: str, now: datetime) -> str:
    asked = approvals.numbered(link.number)
    return approvals.reject(asked.execution, by, now, why=why, number=asked.pk).told


DEEDS: Mapping[str, Deed] = {
    "acknowledge": Deed("acknowledge", _show_incident, _acknowledge),
    "approve": Deed("approve", _show_question, _approve),
    "reject": Deed("reject", _show_question, _reject),
}
