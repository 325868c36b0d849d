"""What agents can ask for, one function each."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec
from middlewatch_wire import Command, Decoded, Malformed, decode_batch
from middlewatch_wire.codec import TooMany
from middlewatch_wire.limits import MAX_BODY_BYTES, MAX_INCARNATION

from controlplane.domain.errors import Conflict, Invalid, Unauthenticated
from controlplane.events.log import Appended
from controlplane.events.streams import Refusal
from controlplane.fleet import actions as fleet
from controlplane.fleet import models
from controlplane.fleet.commands import HANDED_OUT_AT_ONCE, LEASE
from controlplane.fleet.tokens import NodeIdentity
from controlplane.ingest.auth import unauthenticated
from controlplane.ingest.body import unpack
from controlplane.ingest.http import Disconnected, Problem, Receive, Scope, header, read_body, too_many
from controlplane.ingest.service import Service

MAX_SMALL_BODY = 4096
IN_THREAD_ABOVE_BYTES = 128 << 10
"""Bodies above this are unpacked and decoded in a thread, so that the others do not wait."""
NEXT_MS = 5000
NEXT_BUSY_MS = 15_000
BUSY = 0.5
MAX_WAIT_S = 60.0
MAX_POLLS = 16
"""Polls of one node that may hang at once: an agent needs one, and those that it left behind end by themselves."""

_REFUSED = {
    Refusal.SUPERSEDED: "a newer life of this agent has said hello",
    Refusal.IDENTITY_CONFLICT: "another machine speaks under this name",
}


class _Enrol(msgspec.Struct):
    token: str
    node: str


async def ping(_service: Service, _scope: Scope, _receive: Receive) -> Any:
    """Tell the time, so that an agent can see how far its clock is off."""
    return {"now_ms": time.time_ns() // 1_000_000}


async def ingest(service: Service, scope: Scope, receive: Receive) -> Any:
    """Take in a batch; the answer leaves after the commit."""
    identity = await _agent(service, scope)
    body = await read_body(scope, receive, MAX_BODY_BYTES)
    batch = await _decode(header(scope, b"content-encoding"), body)
    if batch.agent.node != identity.name:
        raise Problem(403, "wrong_node", f"this token speaks for {identity.name} only")
    wait_s = service.lives.admit(identity.name, batch.agent.incarnation, time.monotonic())
    if wait_s is not None:
        raise too_many(wait_s)
    result = await service.writer.submit(batch)
    if result.refused is not None:
        raise Problem(409, result.refused.value, _REFUSED[result.refused])
    return _acknowledgement(service, identity.name, batch, result)


async def _agent(service: Service, scope: Scope) -> NodeIdentity:
    identity = await service.tokens.identify(scope, told=service.board.listening)
    wait_s = service.rate.spend(identity.name, time.monotonic())
    if wait_s is not None:
        raise too_many(wait_s)
    return identity


async def _decode(encoding: bytes | None, body: bytes) -> Decoded:
    try:
        if encoding is None and len(body) <= IN_THREAD_ABOVE_BYTES:
            return decode_batch(body)
        return await _unpack_and_decode(encoding, body)
    except TooMany as error:
        raise Problem(413, "too_large", str(error), field=error.field) from error
    except Malformed as error:
        raise Problem(400, "malformed", str(error), field=error.field, index=error.index) from error


async def _unpack_and_decode(encoding: bytes | None, body: bytes) -> Decoded:
    if len(body) > IN_THREAD_ABOVE_BYTES // 8:
        body = await asyncio.to_thread(unpack, encoding, body)
    else:
        body = unpack(encoding, body)
    if len(body) > IN_THREAD_ABOVE_BYTES:
        return await asyncio.to_thread(decode_batch, body)
    return decode_batch(body)


def _acknowledgement(service: Service, node: str, batch: Decoded, result: Appended) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "ack": result.ack,
        "commands_waiting": service.board.count(node),
        "next_in_ms": NEXT_BUSY_MS if service.writer.load > BUSY else NEXT_MS,
    }
    if batch.rejected:
        answer["rejected"] = batch.rejected
    return answer


async def commands(service: Service, scope: Scope, receive: Receive) -> Any:
    """Hand out leased commands, waiting up to `wait_s` seconds for one.

    An agent that tells its `incarnation` gets nothing meant for another life, or another machine, of its name.
    """
    identity = await _agent(service, scope)
    asked = parse_qs(scope["query_string"].decode("latin-1"))
    wait_s, incarnation = _wait_s(asked), _incarnation(asked)
    if service.board.polls(identity.name) >= MAX_POLLS:
        raise too_many(1)
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        found = await _poll(service, _Poll(scope, identity.name, incarnation, time.monotonic() + wait_s), gone)
    finally:
        gone.cancel()
    return {"commands": [_envelope(command) for command in found]}


@dataclass(frozen=True, slots=True)
class _Poll:
    """Who asks for commands, as which life of its agent, and until when it waits."""

    scope: Scope
    node: str
    incarnation: str
    deadline: float


async def _poll(service: Service, poll: _Poll, gone: "asyncio.Future[None]") -> Sequence[models.Command]:
    while True:
        if service.board.take(poll.node) and (found := await _lease(service, poll)):
            return found
        left = poll.deadline - time.monotonic()
        if left <= 0:
            return []
        waiting = asyncio.ensure_future(service.board.wait(poll.node, left))
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            waiting.cancel()
            raise Disconnected


async def _lease(service: Service, poll: _Poll) -> Sequence[models.Command]:
    """Take what waits; whoever may not have it leaves it to the agent that may.

    The token is asked for once more: it may have been revoked while the poll hung.
    """
    try:
        await service.tokens.identify(poll.scope, told=service.board.listening)
    except Problem:
        service.board.post(poll.node)
        raise
    handed = await service.leases.take(poll.node, poll.incarnation)
    if handed.refusal is not None or len(handed.commands) == HANDED_OUT_AT_ONCE:
        service.board.post(poll.node)
    if handed.refusal is not None:
        raise Problem(409, handed.refusal.value, _REFUSED[handed.refusal])
    return handed.commands


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _wait_s(asked: Mapping[str, Sequence[str]]) -> float:
    try:
        wait_s = float(asked.get("wait_s", ["0"])[0])
    except ValueError:
        wait_s = float("nan")
    if not 0.0 <= wait_s <= MAX_WAIT_S:
        raise Problem(400, "malformed", f"wait_s: must be between 0 and {MAX_WAIT_S:g}", field="wait_s", index=None)
    return wait_s


def _incarnation(asked: Mapping[str, Sequence[str]]) -> str:
    given = asked.get("incarnation", [""])[0]
    if len(given) > MAX_INCARNATION or not given.isprintable():
        why = f"incarnation: at most {MAX_INCARNATION} printable characters are allowed"
        raise Problem(400, "malformed", why, field="incarnation", index=None)
    return given


def _envelope(command: models.Command) -> Command:
    return Command(
        command_id=str(command.pk), kind=command.kind, args=command.args, lease_s=LEASE.total_seconds(),
        deadline_ms=int(command.deadline.timestamp() * 1000),
    )  # fmt: skip


async def enrol(service: Service, scope: Scope, receive: Receive) -> Any:
    """Sell a node its token for a use of an enrolment token."""
    wait_s = service.strangers.spend("", time.monotonic())
    if wait_s is not None:
        raise too_many(wait_s)
    body = await read_body(scope, receive, MAX_SMALL_BODY)
    try:
        asked = msgspec.json.decode(body, type=_Enrol)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed", str(error), field="body", index=None) from error
    try:
        token = await service.database.django(lambda: fleet.enrol(asked.token, asked.node, datetime.now(UTC)))
    except Invalid as error:
        raise Problem(400, "malformed", str(error), field=error.field, index=None) from error
    except Unauthenticated as error:
        raise unauthenticated(str(error)) from error
    except Conflict as error:
        raise Problem(409, error.code, str(error), field="node", index=None) from error
    return {"token": token}


async def rotate(service: Service, scope: Scope, _receive: Receive) -> Any:
    """Give an agent a new token for the one it has."""
    identity = await _agent(service, scope)
    try:
        token = await service.database.django(lambda: fleet.rotate(identity, datetime.now(UTC)))
    except Unauthenticated as error:
        raise unauthenticated(str(error)) from error
    except Conflict as error:
        raise Problem(409, error.code, str(error), field="token", index=None) from error
    return {"token": token}
