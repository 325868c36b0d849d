"""Commands to agents: sent once by key, handed out under a lease, ended by their result.

An agent may die with a command in its hands, so a command that is not reported
on within its lease is handed out again; agents remember command ids, so nothing
is done twice. After its deadline a command is not handed out any more.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.db import transaction
from django.db.models import F, Q, QuerySet
from middlewatch_wire import COMMANDS
from psycopg.types.json import Jsonb

from controlplane.domain.errors import Invalid, NotFound
from controlplane.fleet.models import OPEN, Command, CommandState, Node
from controlplane.rows import ask, columns, parted

LEASE = timedelta(seconds=15)
"""How long an agent has to report before a command is handed out again."""
HANDED_OUT_AT_ONCE = 10
CHANNEL = "middlewatch_commands"
"""PostgreSQL tells on this channel the name of a node that has a command waiting."""

FINAL = frozenset({CommandState.SUCCEEDED, CommandState.FAILED, CommandState.REFUSED, CommandState.EXPIRED})
_REPORTED = {
    "accepted": CommandState.RUNNING,
    "running": CommandState.RUNNING,
    "succeeded": CommandState.SUCCEEDED,
    "failed": CommandState.FAILED,
    "refused": CommandState.REFUSED,
}


def send_command(
    node: str,
    kind: str,
    args: Mapping[str, Any],
    *,
    key: str,
    deadline: datetime,
    now: datetime,
    execution_id: int | None = None,
) -> Command:
    """Leave a command for a node's agent; the same `key` again returns the command that is there.

    The waiting agent gets it as soon as the surrounding transaction commits.
    Raises `NotFound` for an unknown node, `Invalid` for a kind or arguments that
    agents do not know.
    """
    statement = _SEND.format(sent=columns(Command, "sent"), node=columns(Node, "node"))
    values = [uuid4(), kind, Jsonb(_checked(kind, args)), key, now, deadline, execution_id, node, CHANNEL]
    sent = ask(statement, values)
    if not sent:
        return _sent_before(node, key)
    command: Command
    command, command.node = parted(sent[0], Command, Node)
    return command


def _sent_before(node: str, key: str) -> Command:
    command = Command.objects.select_related("node").filter(idempotency_key=key).first()
    if command is None:
        raise NotFound(f"there is no node {node}")
    return command


_SEND = """
    WITH sent AS (
        INSERT INTO fleet_command (id, node_id, kind, args, idempotency_key, created_at, deadline, execution_id,
            state, lease_count, result)
        SELECT %s, id, %s, %s, %s, %s, %s, %s::bigint, 'pending', 0, '{{}}' FROM fleet_node WHERE name = %s
        ON CONFLICT (idempotency_key) DO NOTHING RETURNING *
    )
    SELECT {sent}, {node}, pg_notify(%s, node.name) FROM sent JOIN fleet_node AS node ON node.id = sent.node_id
"""
"""Nothing comes back when the key is there already, or the node is not."""


def _checked(kind: str, args: Mapping[str, Any]) -> dict[str, Any]:
    if kind not in COMMANDS:
        raise Invalid("kind", f"must be one of {', '.join(sorted(COMMANDS))}")
    try:
        known = msgspec.convert(dict(args), COMMANDS[kind])
    except msgspec.ValidationError as error:
        raise Invalid("args", str(error)) from error
    built: dict[str, Any] = msgspec.to_builtins(known)
    return built


def handable(now: datetime) -> QuerySet[Command]:
    """Commands that may be handed out: new ones and those whose lease has ended."""
    free = Q(leased_until=None) | Q(leased_until__lte=now)
    return Command.objects.filter(free, state__in=OPEN, deadline__gt=now)


def lease_commands(nodes: Collection[str], now: datetime) -> dict[str, list[Command]]:
    """Hand out what waits for some nodes, of each its oldest first and a bounded number, under leases.

    A node for which nothing waits is not in the answer. Two connections of one agent
    never get the same command under one lease.
    """
    found: dict[str, list[Command]] = {}
    statement = _HAND_OUT.format(command=columns(Command, "command"))
    for row in ask(statement, [now, now, HANDED_OUT_AT_ONCE, list(nodes), now + LEASE]):
        found.setdefault(row[-1], []).append(parted(row, Command)[0])
    for waiting in found.values():
        waiting.sort(key=lambda command: command.created_at)
    return found


_HAND_OUT = """
    WITH waiting AS MATERIALIZED (
        SELECT oldest.id, node.name FROM fleet_node AS node CROSS JOIN LATERAL (
            SELECT command.id FROM fleet_command AS command
            WHERE command.node_id = node.id AND command.state IN ('pending', 'leased', 'running')
                AND command.deadline > %s AND (command.leased_until IS NULL OR command.leased_until <= %s)
            ORDER BY command.created_at LIMIT %s FOR UPDATE SKIP LOCKED
        ) AS oldest
        WHERE node.name = ANY(%s)
    )
    UPDATE fleet_command AS command SET leased_until = %s, lease_count = lease_count + 1,
        state = CASE WHEN state = 'pending' THEN 'leased' ELSE state END
    FROM waiting WHERE command.id = waiting.id
    RETURNING {command}, waiting.name
"""
"""`handable` of some nodes under leases, in one statement and one commit: a fleet that is asked at once waits for
as many as it takes to serve all.

Materialized, for a plan may run a sub-select again for each row, and its limit would hold for none.
"""


def record_result(command_id: str | UUID, data: Mapping[str, Any], now: datetime, *, node: str = "") -> Command:
    """Write what an agent reports on a command; a final state is never changed again.

    `data` is that of a `command.result` event. `node`, when given, must be the one
    the command was sent to. A report that it still runs renews the lease. Late
    news about an expired command is kept: it happened.
    """
    state = _REPORTED.get(str(data.get("state")))
    if state is None:
        raise Invalid("state", f"must be one of {', '.join(_REPORTED)}")
    with transaction.atomic():
        command = _locked(command_id, node)
        if command.state in FINAL - {CommandState.EXPIRED}:
            return command
        if state is CommandState.RUNNING and command.state == CommandState.EXPIRED:
            return command
        _report(command, state, data, now)
    return command


def _locked(command_id: str | UUID, node: str) -> Command:
    try:
        wanted = UUID(str(command_id))
    except ValueError:
        raise NotFound("there is no such command") from None
    found = Command.objects.select_for_update().filter(pk=wanted)
    command = (found.filter(node__name=node) if node else found).first()
    if command is None:
        raise NotFound("there is no such command")
    return command


def _report(command: Command, state: CommandState, data: Mapping[str, Any], now: datetime) -> None:
    command.state = state
    command.result = dict(data)
    command.leased_until = now + LEASE if state is CommandState.RUNNING else None
    command.finished_at = None if state is CommandState.RUNNING else now
    command.save(update_fields=["state", "result", "leased_until", "finished_at"])


def overdue(now: datetime) -> QuerySet[Command]:
    """Commands whose deadline and lease have both passed."""
    unleased = Q(leased_until=None) | Q(leased_until__lte=F("deadline")) | Q(leased_until__lte=now)
    return Command.objects.filter(unleased, state__in=OPEN, deadline__lte=now)


def expire_commands(now: datetime) -> list[Command]:
    """End commands that are overdue; the caller, which holds the runs that they are about, wakes their executions."""
    with transaction.atomic():
        found = list(overdue(now).select_for_update(skip_locked=True))
        for command in found:
            command.state, command.finished_at = CommandState.EXPIRED, now
            command.save(update_fields=["state", "finished_at"])
    return found


UNASKED = Q(execution_id__isnull=False) | Q(kind__in=("nodes.drain", "nodes.resume", "ranks.stop"))
"""All that automation sends: for its executions, and to keep ledger and scheduler the same."""


def recall_commands(
    now: datetime,
    *,
    execution_id: int | None = None,
    run: str = "",
    executions: QuerySet[Any] | Iterable[int] = (),
    fleet: bool = False,
) -> int:
    """Hand out no more of an execution's commands, or of automation's about a run, or of all of automation's.

    What is about a run may not name it, as the closing of a node does not: `executions` are the run's.

    Those that no agent has seen end at once, those on their way when their lease ends,
    and what an agent has taken up ends by itself. Returns how many were called back.
    """
    sent_for = Q(execution_id__isnull=False) | Q(kind="ranks.stop")
    automations = UNASKED if fleet else Q(execution_id__in=executions) | (Q(args__run=run) & sent_for)
    about = automations if execution_id is None else Q(execution_id=execution_id)
    waiting = Command.objects.filter(about, deadline__gt=now)
    sent = waiting.filter(state=CommandState.LEASED).update(deadline=now)
    unseen = waiting.filter(state=CommandState.PENDING)
    return sent + unseen.update(state=CommandState.EXPIRED, deadline=now, finished_at=now)


WAITING = """
    SELECT node.name, count(*) FROM fleet_command AS command JOIN fleet_node AS node ON node.id = command.node_id
    WHERE command.state IN ('pending', 'leased', 'running') AND command.deadline > now()
        AND (command.leased_until IS NULL OR command.leased_until <= now())
    GROUP BY node.name
"""
"""Nodes with commands that may be handed out now: `handable` as ingest's event loop asks it."""
