"""Everything that the page about notifications shows."""

from datetime import datetime
from typing import Any

from controlplane.access.queries import people
from controlplane.incidents.models import Silence
from controlplane.notify import queries
from controlplane.notify.kinds import KINDS
from controlplane.notify.models import DeadMan, Message, Rule, Transport
from controlplane.web.present import notifications as present
from controlplane.web.present.buttons import May
from controlplane.web.present.words import sentence

MESSAGES = 50


def state(may: May, now: datetime) -> dict[str, Any]:
    """Read transports, rules, silences, messages and signs of life, and say whether anybody would be called."""
    transports = list(Transport.objects.all())
    return {
        "unready": queries.readiness(now),
        "failing": len(list(queries.failing(now))),
        "transports": [_transport(row) for row in transports],
        "rules": [{"row": row, "words": sentence(queries.rule_words(row))} for row in Rule.objects.all()],
        "windows": list(queries.windows(now)),
        "silences": list(Silence.objects.filter(until__gt=now).select_related("run")),
        "signs": list(DeadMan.objects.all()),
        "messages_told": [_message(row) for row in queries.messages()[:MESSAGES]],
        "now": now,
        **forms(transports, may),
    }


def forms(transports: list[Transport], may: May) -> dict[str, Any]:
    """Build the forms for whoever looks."""
    names = [(str(row.pk), row.name) for row in transports]
    active = [user.username for user in people() if user.is_active]
    return {
        "transport_forms": present.transport_forms(active, may),
        "rule_form": present.rule_form(names, may),
        "window_form": present.window_form(may),
        "silence_form": present.silence_form(may),
        "sign_form": present.dead_man_form(may),
    }


def _transport(row: Transport) -> dict[str, Any]:
    last = row.messages.order_by("-pk").first()
    return {"row": row, "kind": KINDS[row.kind].title, "last": _message(last) if last else None}


def _message(row: Message) -> dict[str, Any]:
    subjects = list(row.mentions.values_list("call__subject", flat=True)[:6])
    return {
        "row": row,
        "badge": present.MESSAGE[row.state],
        "kind": present.KIND.get(row.kind, row.kind),
        "proof": queries.proof_words(row) if row.state == "delivered" else row.why,
        "incidents": sorted({one.partition(":")[2] for one in subjects if one.startswith("incident:")}, key=int),
        "at": row.ended_at or row.tried_at or row.next_at,
    }
