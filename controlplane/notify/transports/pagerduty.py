"""PagerDuty's events, version 2: one alert per thread, opened, acknowledged and resolved by its `dedup_key`.

The service itself makes repetitions harmless: a second trigger with the same key joins
the first.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from controlplane.domain.notify.retrying import Answer
from controlplane.notify.kinds import EVENTS_ADDRESS
from controlplane.notify.letters import Letter
from controlplane.notify.web import Request, ask

ACTIONS = {"acknowledged": "acknowledge", "ended": "resolve"}
SOURCE = "middlewatch"


def send(values: Mapping[str, str], letter: Letter, now: datetime, allowed: list[str]) -> Answer:
    """Send one event."""
    body = json.dumps(content(values["routing_key"], letter)).encode()
    request = Request(url=values.get("url") or EVENTS_ADDRESS, body=body, headers={"Content-Type": "application/json"})
    return ask(request, now, allowed)


def content(routing_key: str, letter: Letter) -> dict[str, object]:
    """Return the event: a trigger carries the facts, what follows it only its key."""
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": ACTIONS.get(letter.kind, "trigger"),
        "dedup_key": letter.thread,
    }
    if letter.kind in ACTIONS:
        return event
    worst = letter.told[0] if len(letter.told) == 1 else None
    facts = {
        "summary": letter.push, "source": (worst.run if worst else "") or SOURCE, "severity": _severity(letter),
        "class": worst.klass if worst else "several", "custom_details": {"text": letter.body},
    }  # fmt: skip
    return {**event, "payload": facts, "client": "Middlewatch", "client_url": letter.url,
            "links": [{"href": letter.url, "text": "Open in Middlewatch"}]}  # fmt: skip


def _severity(letter: Letter) -> str:
    """PagerDuty wakes by urgency: what is quiet here must not be critical there."""
    return letter.severity if letter.loud or letter.severity == "info" else "warning"
