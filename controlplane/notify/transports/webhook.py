"""Web hooks: JSON to an address of somebody's own.

The receiver can tell a repetition by `Idempotency-Key`, and with a signing key that the
body is ours: `Middlewatch-Signature` is the HMAC-SHA256 of the body in hexadecimal.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from controlplane.domain.notify.retrying import Answer
from controlplane.notify.letters import Letter
from controlplane.notify.web import Request, ask


def send(values: Mapping[str, str], letter: Letter, now: datetime, allowed: list[str]) -> Answer:
    """Post a letter as JSON."""
    body = json.dumps(content(letter)).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": letter.key}
    if values.get("authorization"):
        headers["Authorization"] = values["authorization"]
    if values.get("signing_key"):
        headers["Middlewatch-Signature"] = signature(values["signing_key"], body)
    return ask(Request(url=values["url"], body=body, headers=headers), now, allowed)


def content(letter: Letter) -> dict[str, object]:
    """Return what a receiver gets."""
    return {
        "key": letter.key, "thread": letter.thread, "kind": letter.kind, "loud": letter.loud,
        "severity": letter.severity, "text": letter.push, "body": letter.body, "url": letter.url,
        "subjects": [asdict(one) for one in letter.told],
    }  # fmt: skip


def signature(key: str, body: bytes) -> str:
    """Sign a body."""
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
