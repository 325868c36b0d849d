"""How a machine joins the fleet: a short-lived token of few uses buys its own token."""

import re
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F

from controlplane.domain.errors import Conflict, Invalid, NotFound, Unauthenticated
from controlplane.domain.fleet import identity
from controlplane.events import queries as events
from controlplane.fleet import tokens
from controlplane.fleet.models import EnrolmentToken, Node, NodeToken
from controlplane.fleet.tokens import NodeIdentity

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_USES = 10_000
MAX_TTL = timedelta(days=30)
MAX_TOKENS = 32
"""Tokens that speak for one node at once: an agent that asks for one after the other must not fill the table."""
ROTATION_GRACE = timedelta(hours=1)
"""How long the old token lives on, for an agent that never got the answer."""


def create_enrolment_token(by: str, now: datetime, uses: int = 1, ttl: timedelta = timedelta(hours=1)) -> str:
    """Make a token that enrols up to `uses` nodes within `ttl`; it is shown this once."""
    if not 1 <= uses <= MAX_USES:
        raise Invalid("uses", f"must be between 1 and {MAX_USES}")
    if not timedelta(0) < ttl <= MAX_TTL:
        raise Invalid("ttl", f"must be positive and at most {MAX_TTL.days} days")
    token = tokens.new_token(tokens.ENROLMENT_PREFIX)
    EnrolmentToken.objects.create(
        digest=tokens.digest_of(token), created_at=now, created_by=by, expires_at=now + ttl, uses_left=uses
    )
    return token


def enrol(token: str, node_name: str, now: datetime) -> str:
    """Spend one use of an enrolment token and return the node's own token.

    A name whose holder is silent gets a further token: the machine may have been
    installed anew. The tokens it had stay valid, so a mistaken enrolment silences
    nobody; two machines under one name are told apart by what they are (methods 11.6).

    Raises:
        Invalid: the name could mean something else.
        Unauthenticated: the enrolment token is no good.
        Conflict: a node of this name is enrolled and alive; costs no use.
    """
    if not NODE_NAME.fullmatch(node_name):
        raise Invalid("node", "use letters, digits, '.', '_' and '-', at most 100, beginning with a letter or digit")
    with transaction.atomic():
        _spend(token, now)
        node, _ = Node.objects.get_or_create(name=node_name, defaults={"state_since": now, "enrolled_at": now})
        if _lives(node, now):
            raise Conflict(f"{node_name} is enrolled and alive; revoke its tokens first, or use another name")
        return _issue(node.pk, now)


def _lives(node: Node, now: datetime) -> bool:
    """Tell whether somebody with a valid token speaks for the node: an enrolment must not make a second voice."""
    valid = NodeToken.objects.filter(tokens.alive(now), node=node).exists()
    return valid and events.heard_since(node.name, now - timedelta(seconds=identity.SILENT_AFTER_S))


def rotate(speaker: NodeIdentity, now: datetime) -> str:
    """Give an agent a new token; the one it used ends after `ROTATION_GRACE`, however often it is used for that.

    Raises:
        Unauthenticated: the token has ended.
        Conflict: the node holds as many tokens as it may.
    """
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True).get(pk=speaker.node_id)
        alive = NodeToken.objects.filter(tokens.alive(now), node=node)
        if not alive.filter(digest=speaker.digest).exists():
            raise Unauthenticated("the token is not valid any more")
        if alive.count() >= MAX_TOKENS:
            raise Conflict(f"{node.name} holds {MAX_TOKENS} tokens already; wait until old ones end, or revoke them")
        alive.filter(digest=speaker.digest, revoked_at=None).update(revoked_at=now + ROTATION_GRACE)
        token = _issue(speaker.node_id, now)
        _tell(speaker.node_id)
    return token


def revoke(node_name: str, now: datetime) -> int:
    """End every token of a node at once; returns how many there were."""
    with transaction.atomic():
        node = Node.objects.filter(name=node_name).first()
        if node is None:
            raise NotFound(f"there is no node {node_name}")
        ended = NodeToken.objects.filter(tokens.alive(now), node=node).update(revoked_at=now)
        _tell(node.pk)
    return ended


def _spend(token: str, now: datetime) -> None:
    usable = EnrolmentToken.objects.filter(
        digest=tokens.digest_of(token), expires_at__gt=now, revoked_at=None, uses_left__gt=0
    )
    if not usable.update(uses_left=F("uses_left") - 1):
        raise Unauthenticated("the enrolment token is unknown, expired or used up")


def _issue(node_id: int, now: datetime) -> str:
    token = tokens.new_token(tokens.NODE_PREFIX)
    NodeToken.objects.create(node_id=node_id, digest=tokens.digest_of(token), created_at=now)
    return token


def _tell(node_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [tokens.CHANNEL, str(node_id)])
