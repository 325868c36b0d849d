"""What becomes of a message after a try: delivered, tried again, or given up.

A receiver that says that the message itself is wrong will say so again; one that is
busy, broken or silent may be well in a minute. The jitter comes from the message's key,
so the same night gives the same times.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

FIRST_S = 2.0
MOST_S = 300.0
MOST_ASKED_S = 3600.0
"""Longest wait that a receiver may ask for."""
JITTER = 0.2
TRIED_FOR = timedelta(hours=6)
"""A message that nobody took for so long is given up."""
BUSY = frozenset({408, 425, 429})


class Fate(StrEnum):
    """What a try has shown."""

    DELIVERED = "delivered"
    AGAIN = "again"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of one try: `why` in words, `proof` as the receiver gave it."""

    fate: Fate
    why: str = ""
    proof: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: float | None = None


def fate_of_status(status: int) -> Fate:
    """Judge an HTTP status."""
    if 200 <= status < 300:  # noqa: PLR2004 - statuses of HTTP
        return Fate.DELIVERED
    return Fate.AGAIN if status >= 500 or status in BUSY else Fate.NEVER  # noqa: PLR2004


def next_try(answer: Answer, tries: int, key: str, *, created: datetime, now: datetime) -> datetime | None:
    """Return when to try again after `tries` tries; None when the message is to be given up."""
    if answer.fate is not Fate.AGAIN:
        return None
    wait = timedelta(seconds=delay_s(tries, key, answer.retry_after_s))
    return now + wait if now + wait - created <= TRIED_FOR else None


def delay_s(tries: int, key: str, asked_s: float | None = None) -> float:
    """Return the wait after the try number `tries`: doubling, bounded, and never less than the receiver asked for."""
    base: float = min(MOST_S, FIRST_S * 2 ** min(tries - 1, 16))
    spread = zlib.crc32(f"{key}:{tries}".encode()) / 2**32 * 2 - 1
    return max(base * (1 + JITTER * spread), min(MOST_ASKED_S, asked_s or 0.0))
