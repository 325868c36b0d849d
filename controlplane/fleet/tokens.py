"""Bearer tokens: random, kept only as digests, compared by look-up of the digest.

A token has 256 bits of chance, so a plain SHA-256 is enough, and finding the
digest in an index leaks nothing about the token through time.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from controlplane.fleet.models import NodeToken

MAX_TOKEN = 200
"""Characters of a bearer token that are looked at."""
NODE_PREFIX = "mwn_"
ENROLMENT_PREFIX = "mwe_"
CHANNEL = "middlewatch_tokens"
"""PostgreSQL tells on this channel the id of a node whose tokens changed."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Whom a token speaks for; `until` is when it ends, if that is decided."""

    node_id: int
    name: str
    digest: str
    until: datetime | None = None


def new_token(prefix: str) -> str:
    """Make a token; the prefix lets people and scanners recognise it."""
    return prefix + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token[: MAX_TOKEN + 1].encode()).hexdigest()


def alive(now: datetime) -> Q:
    """Select tokens that are valid at `now`; a revocation may lie in the future."""
    return Q(revoked_at=None) | Q(revoked_at__gt=now)


def node_of(bearer: str, now: datetime) -> NodeIdentity | None:
    """Return whom the token speaks for, None when it is unknown or revoked."""
    if not bearer.startswith(NODE_PREFIX) or len(bearer) > MAX_TOKEN:
        return None
    found = NodeToken.objects.filter(alive(now), digest=digest_of(bearer)).select_related("node").first()
    return NodeIdentity(found.node_id, found.node.name, found.digest, found.revoked_at) if found else None
