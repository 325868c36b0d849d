"""Who is speaking: the bearer token of a request, looked up once and remembered.

While PostgreSQL tells of revoked tokens, a remembered token is good for minutes;
while it does not, only for seconds. When it begins to tell again, all are looked up
anew, for what changed meanwhile was not heard. So a revocation takes effect at once,
and at the latest after `BLIND_TTL_S`.
"""

import asyncio
import math
import time
from datetime import UTC, datetime

from controlplane.fleet import tokens
from controlplane.fleet.tokens import NodeIdentity
from controlplane.ingest.database import Database
from controlplane.ingest.http import Problem, Scope, header, too_many
from controlplane.ingest.rate import RateLimit

TOLD_TTL_S = 300.0
BLIND_TTL_S = 3.0
UNKNOWN_TTL_S = 3.0
MAX_REMEMBERED = 20_000
GUESSES_PER_S, GUESSES_BURST = 50.0, 5_000.0
"""Tokens never seen before that are looked up: a whole fleet may come back at once, one who guesses goes on."""
NOBODY = NodeIdentity(0, "", "")
"""Whom an unknown token speaks for."""

_FIND = """
    SELECT node.id, node.name, token.digest, token.revoked_at
    FROM fleet_nodetoken AS token JOIN fleet_node AS node ON node.id = token.node_id
    WHERE token.digest = %s AND (token.revoked_at IS NULL OR token.revoked_at > now())
"""


class Tokens:
    """Remembered answers to "whose token is this?"."""

    def __init__(self, database: Database) -> None:
        """Start knowing nobody."""
        self._database = database
        self._known: dict[str, tuple[NodeIdentity, float]] = {}
        self._changes = 0
        self._guesses = RateLimit(GUESSES_PER_S, GUESSES_BURST)
        self._lock = asyncio.Lock()

    async def identify(self, scope: Scope, *, told: bool) -> NodeIdentity:
        """Return whom the request speaks for, or raise 401; `told` while revocations are heard of.

        Raises 429 for a token never seen before while too many such come.
        """
        bearer = _bearer(scope)
        identity = self._remembered(bearer, told=told)
        if identity is None:
            wait_s = None if bearer in self._known else self._guesses.spend("", time.monotonic())
            if wait_s is not None:
                raise too_many(wait_s)
            identity = await self._look_up(bearer, told=told)
        if not identity.name or (identity.until is not None and identity.until <= datetime.now(UTC)):
            raise unauthenticated("the token is unknown or revoked")
        return identity

    async def _look_up(self, bearer: str, *, told: bool) -> NodeIdentity:
        """Ask PostgreSQL; of many requests with one token, one asks for all."""
        async with self._lock:
            return self._remembered(bearer, told=told) or await self._find(bearer)

    def forget_node(self, node_id: int) -> None:
        """Look up a node's tokens anew from now on."""
        self._changes += 1
        self._known = {bearer: found for bearer, found in self._known.items() if found[0].node_id != node_id}

    def forget_all(self) -> None:
        """Look up every token anew from now on; those that were known are no guesses."""
        self._changes += 1
        self._known = {bearer: (identity, -math.inf) for bearer, (identity, _) in self._known.items()}

    def _remembered(self, bearer: str, *, told: bool) -> NodeIdentity | None:
        """Return the answer that is still good, None when it has to be looked up."""
        found = self._known.get(bearer)
        if found is None:
            return None
        identity, at = found
        ttl = UNKNOWN_TTL_S if identity is NOBODY else TOLD_TTL_S if told else BLIND_TTL_S
        return identity if time.monotonic() - at < ttl else None

    async def _find(self, bearer: str) -> NodeIdentity:
        changes = self._changes
        rows = await self._database.rows(_FIND, [tokens.digest_of(bearer)])
        identity = NodeIdentity(*rows[0]) if rows else NOBODY
        if len(self._known) >= MAX_REMEMBERED:
            self._known = {token: found for token, found in self._known.items() if found[0] is not NOBODY}
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        # what changed while the question was under way may not be in its answer
        self._known[bearer] = (identity, time.monotonic() if changes == self._changes else -math.inf)
        return identity


def _bearer(scope: Scope) -> str:
    value = (header(scope, b"authorization") or b"").decode("latin-1")
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.startswith(tokens.NODE_PREFIX) or len(token) > tokens.MAX_TOKEN:
        raise unauthenticated("send the node's token as `Authorization: Bearer …`")
    return token


def unauthenticated(why: str) -> Problem:
    """Build the 401."""
    problem = Problem(401, "unauthenticated", why)
    problem.headers.append((b"www-authenticate", b"Bearer"))
    return problem
