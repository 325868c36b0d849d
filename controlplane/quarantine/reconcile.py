"""Ask schedulers to follow the ledger, once for each difference (L-04, L-09).

Each difference is looked at again under the node's lock before anything is asked. Every
request is written into the node's history, and its answer is seen in the scheduler's
own next word, so a lost request is repeated and one that was heard is not.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.domain.chronicle import scheduling as words
from controlplane.domain.fleet.reconcile import BACK, Ask, Case, Proof, Verdict, judge, may_ask_again
from controlplane.fleet import actions as fleet
from controlplane.fleet import scheduler
from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, CommandState, Node, SchedulerNode
from controlplane.quarantine import actions, queries
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs import automation
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run

ACTOR = "reconciliation"
WITHIN = timedelta(minutes=2)
"""A request that no agent has fetched by then is void; the next look makes another if it is still wanted."""
MAX_ASKED = 50
"""Differences that one look settles; the next goes on."""
MAX_PROOFS = 5
RECENT = timedelta(days=7)
GRACE_S = 5.0
PREFIX = "reconcile:"


def reconcile(now: datetime) -> list[Verdict]:
    """Compare every node with the word of its scheduler and ask for what is missing; returns what was asked."""
    asked: list[Verdict] = []
    for row, node in _differences(now):
        verdict = _settle(node, row, now)
        asked += [verdict] if verdict else []
        if len(asked) >= MAX_ASKED:
            break
    return asked


def standing(node: Node, now: datetime) -> list[tuple[SchedulerNode, Verdict]]:
    """Return what each scheduler says of a node, and what follows from it, for whoever reads its page."""
    rows = scheduler.words([node.name])
    released = queries.released([node.name])
    return [(row, judge(_case(node, row, released, _proof(node, row, now)), now.timestamp())) for row in rows]


def _differences(now: datetime) -> Iterable[tuple[SchedulerNode, Node]]:
    """Yield the nodes about which something may have to be asked; a proof is looked for only there."""
    rows = scheduler.words()
    nodes = {node.name: node for node in Node.objects.filter(name__in={row.name for row in rows})}
    released = queries.released(nodes)
    for row in rows:
        node = nodes.get(row.name)
        if node and judge(_case(node, row, released), now.timestamp()).ask:
            yield row, node


def _case(node: Node, row: SchedulerNode, released: Mapping[str, datetime], proof: Proof = Proof.NONE) -> Case:
    at = released.get(node.name)
    return Case(
        node=node.name, ledger=node.state, why=node.state_reason, word=scheduler.word(row), held=node.held,
        released_at=at.timestamp() if at else None, proof=proof,
    )  # fmt: skip


def _settle(node: Node, row: SchedulerNode, now: datetime) -> Verdict | None:
    """Look again under the node's lock, and ask; None when nothing is to be asked any more, or was asked already."""
    with transaction.atomic():
        theirs = node.state in BACK and _left_to_people(node, now)
        if _silenced():
            return None
        locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        row.refresh_from_db()
        released = queries.released([locked.name])
        verdict = judge(_case(locked, row, released, _proof(locked, row, now)), now.timestamp())
        barred = theirs and verdict.ask is Ask.PROVE
        if verdict.ask is None or barred or not _ask(verdict, locked, row, now):
            return None
    return verdict


def _left_to_people(node: Node, now: datetime) -> bool:
    """Say whether automation keeps its hands off a run whose ranks may be left there; that stays so until we end.

    A proof ends those ranks. Runs are locked before switches and nodes, as executions do.
    """
    names = {run for run, _ in _ended_here(node, now)}
    runs = list(Run.objects.select_for_update(no_key=True).filter(name__in=names).order_by("pk"))
    return any(run.held or _keeps_still(automation.share(run)) for run in runs)


def _silenced() -> bool:
    """Say whether kill switch or breaker of the fleet keep automation from acting; neither changes until we end."""
    return _keeps_still(automation.share(None))


def _keeps_still(standing: automation.Standing) -> bool:
    return standing.off is not None or standing.opened is not None


def _ask(verdict: Verdict, node: Node, row: SchedulerNode, now: datetime) -> bool:
    """Send what is wanted, unless it was asked already; tell it in the node's history."""
    base = _key(verdict.ask, node, row)
    before = _sent(base)
    last = before[-1] if before else None
    pending = last is not None and last.state not in FINAL
    if not may_ask_again(last.created_at.timestamp() if last else None, now.timestamp(), pending=pending):
        return False
    first = _next(base, before)
    for number, (to, kind, args) in enumerate(_requests(verdict, node, row, now), first):
        fleet.send_command(to, kind, args, key=f"{base}{number}", deadline=now + WITHIN, now=now)
    book = Book(now)
    told = words.asked(verdict)
    actions.note(node.name, told, actor=ACTOR, key=f"{base}{first}", now=now, book=book)
    book.write()
    return True


def _next(base: str, sent: Iterable[Command]) -> int:
    """Number a request behind all that were made; of old ones whose commands are forgotten the notes remain."""
    noted = LedgerEntry.objects.filter(key__startswith=base).values_list("key", flat=True)
    keys = [*(command.idempotency_key for command in sent), *(key for key in noted if key is not None)]
    return 1 + max((int(key.removeprefix(base)) for key in keys), default=-1)


def _key(ask: Ask | None, node: Node, row: SchedulerNode) -> str:
    """Name a difference by what opened it: the ledger's move, or the scheduler's."""
    since = node.state_since if ask is Ask.DRAIN else row.since
    return f"{PREFIX}{ask}:{row.pk}:{int(since.timestamp() * 1000)}:"


def _requests(verdict: Verdict, node: Node, row: SchedulerNode, now: datetime) -> list[tuple[str, str, dict[str, Any]]]:
    if verdict.ask is Ask.DRAIN:
        return [(row.launcher, "nodes.drain", {"nodes": [node.name], "reason": verdict.why[:200]})]
    if verdict.ask is Ask.RESUME:
        return [(row.launcher, "nodes.resume", {"nodes": [node.name]})]
    ended = _ended_here(node, now)
    return [(node.name, "ranks.stop", {"run": run, "attempt": number, "grace_s": GRACE_S}) for run, number in ended]


def _ended_here(node: Node, now: datetime) -> list[tuple[str, int]]:
    """Name the attempts that used the node and have ended: what is left of them there is nobody's any more."""
    ended = Attempt.objects.filter(nodes__contains=[node.name], state=AttemptState.EXITED, exited_at__gte=now - RECENT)
    return list(ended.order_by("-exited_at").values_list("run__name", "number")[:MAX_PROOFS])


def _proof(node: Node, row: SchedulerNode, now: datetime) -> Proof:
    """Say what the node's agent has proved since the scheduler took the node out."""
    sent = _sent(_key(Ask.PROVE, node, row))
    if not sent:
        return Proof.NONE if _ended_here(node, now) else Proof.IMPOSSIBLE
    newest = [command for command in sent if command.created_at == sent[-1].created_at]
    if any(command.state not in FINAL for command in newest):
        return Proof.ASKED
    if all(command.state == CommandState.SUCCEEDED and not _survivors(command) for command in newest):
        return Proof.CLEAR
    again = may_ask_again(sent[-1].created_at.timestamp(), now.timestamp(), pending=False)
    return Proof.NONE if again else Proof.LEFT


def _survivors(command: Command) -> bool:
    data = command.result.get("data")
    return not isinstance(data, dict) or bool(data.get("survivors"))


def _sent(base: str) -> list[Command]:
    return list(Command.objects.filter(idempotency_key__startswith=base).order_by("created_at"))
