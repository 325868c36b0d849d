"""Slack's incoming web hooks, which Mattermost, Rocket.Chat and others understand as well."""

import json
from collections.abc import Mapping
from datetime import datetime

from controlplane.domain.notify.retrying import Answer
from controlplane.notify.letters import Letter
from controlplane.notify.web import Request, ask

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def send(values: Mapping[str, str], letter: Letter, now: datetime, allowed: list[str]) -> Answer:
    """Post a letter; the first line stands bold, so that the channel's preview shows it."""
    first, _, rest = letter.body.partition("\n")
    body = json.dumps({"text": f"*{escaped(first)}*\n{escaped(rest)}".strip(), "unfurl_links": False}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": letter.key}
    return ask(Request(url=values["url"], body=body, headers=headers), now, allowed)


def escaped(text: str) -> str:
    """Keep Slack from reading names of ranks and nodes as links or mentions, and stars as emphasis."""
    plain = "".join(_ESCAPES.get(letter, letter) for letter in text)
    return plain.replace("*", "∗")
