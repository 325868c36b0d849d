"""Whether two agents under one name are one machine (methods 11.6).

An agent that restarts says hello again; that is the same machine and the newer
life wins. Another machine under the same name is either its replacement, when
the older one has gone silent, or a mistake that a person has to sort out: then
neither may be acted on as the other.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SILENT_AFTER_S = 30.0
"""Six missed heartbeats of five seconds (methods 2)."""


UNKNOWN = "unknown"
"""Digest of a machine that shows nothing of itself: it counts as one and the same."""


PLACEHOLDERS = frozenset(
    {"", "0", "none", "n/a", "unknown", "default string", "not specified", "to be filled by o.e.m."}
)
"""What boards say whose maker wrote no serial number: it names no machine."""
MAX_GPUS = 64


class Claim(StrEnum):
    """What becomes of an agent that says hello under a name."""

    GRANTED = "granted"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the name now; `last_seen` is in seconds since the epoch, by our clock."""

    incarnation: str
    identity: str
    last_seen: float


def digest(hardware: Mapping[str, Any]) -> str:
    """Name a machine by what stays when parts are swapped; `UNKNOWN` when nothing can be read.

    GPUs count only where neither a machine id, a board serial nor a provider's id
    is readable: one that fell off the bus does not make another machine.
    """
    parts = [_readable(hardware.get(key)) for key in ("machine_id", "board_serial", "provider_id")]
    if not any(parts):
        parts = sorted(gpu_uuids(hardware))
    if not any(parts):
        return UNKNOWN
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def judge(holder: Holder | None, incarnation: str, identity: str, now: float) -> Claim:
    """Decide whether the agent that says hello may speak for the name from now on."""
    if holder is None or holder.incarnation == incarnation or holder.identity == identity:
        return Claim.GRANTED
    silent = now - holder.last_seen >= SILENT_AFTER_S
    return Claim.GRANTED if silent else Claim.CONFLICT


class Kinship(StrEnum):
    """How two machines of different names are one and the same."""

    SAME = "same"
    GPUS = "gpus"
    NONE = "none"


def gpu_uuids(hardware: Mapping[str, Any]) -> frozenset[str]:
    """Give the identifiers of a machine's GPUs."""
    gpus = hardware.get("gpus")
    listed = gpus[:MAX_GPUS] if isinstance(gpus, (list, tuple)) else []
    return frozenset(str(gpu["uuid"]) for gpu in listed if isinstance(gpu, Mapping) and gpu.get("uuid"))


def kinship(one: Mapping[str, Any], other: Mapping[str, Any]) -> Kinship:
    """Compare two machines by serial numbers, then by GPUs: half of the same ones have moved together (L-01)."""
    mine, theirs = digest(one), digest(other)
    if mine == theirs != UNKNOWN:
        return Kinship.SAME
    gpus, known = gpu_uuids(one), gpu_uuids(other)
    shared = len(gpus & known)
    return Kinship.GPUS if shared and 2 * shared >= min(len(gpus), len(known)) else Kinship.NONE


def _readable(value: Any) -> str:
    text = str(value or "").strip()
    return "" if text.lower() in PLACEHOLDERS else text
