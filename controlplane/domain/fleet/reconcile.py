"""Hold the node ledger against the scheduler, and say what to ask of it (L-04, L-09).

The ledger is right about who may train, the scheduler about what it would do next. Where
they differ, the scheduler is asked to follow, and only as far as that undoes nothing of
anybody else: what a person drained stays drained, and what is unknown is left alone.
"""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.fleet.scheduling import CLOSED, OFFERED, UNKNOWN, Word
from controlplane.domain.fleet.states import KEPT_OUT, USABLE

AGAIN_AFTER_S = 600.0
"""A request that changed nothing is repeated after this; it may have been lost with its launcher."""
OUT = KEPT_OUT - {"retired"}
"""A retired machine is somebody else's by now."""
FENCED = frozenset({"drained", "down"})
"""As a fence leaves a node on which nothing runs any more, or which does not answer."""
BACK = USABLE | {"suspect"}


class Ask(StrEnum):
    """What is asked, and of whom: the first two of the launcher, the last of the node's own agent."""

    DRAIN = "drain"
    RESUME = "resume"
    PROVE = "prove"


class Proof(StrEnum):
    """What is known of rank processes on a node that the scheduler gave up on."""

    NONE = ""
    """Nobody was asked yet."""
    ASKED = "asked"
    CLEAR = "clear"
    """The node's agent proved that none is left."""
    LEFT = "left"
    """One is left, or the agent could not say."""
    IMPOSSIBLE = "impossible"
    """No attempt of ours ended there, so no agent can speak of what ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One node: its state in the ledger and why, and the word of its scheduler.

    `released_at` is when it last left quarantine, in seconds since the epoch.
    """

    node: str
    ledger: str
    why: str
    word: Word
    held: bool = False
    released_at: float | None = None
    proof: Proof = Proof.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`ask` None: nothing is to be done; `why` then says what stands in the way, "" in agreement."""

    node: str
    ask: Ask | None = None
    why: str = ""


def judge(case: Case, now: float) -> Verdict:
    """Say what is to be asked about a node as things stand."""
    state = case.word.at(now)
    if state == UNKNOWN:
        return _leave(case, "the scheduler has not spoken of it lately")
    if case.ledger in OUT and state in OFFERED:
        return _wanted(case, Ask.DRAIN, f"{case.ledger}: {case.why}" if case.why else case.ledger)
    if case.ledger in BACK and state in CLOSED:
        return _closed(case, state)
    return Verdict(node=case.node)


def _closed(case: Case, state: str) -> Verdict:
    """Judge a node that the ledger would use and the scheduler keeps out."""
    word = case.word
    if word.ours and case.released_at is not None and case.released_at >= word.since:
        return _wanted(case, Ask.RESUME, f"the ledger calls it {case.ledger} again")
    if (state in FENCED and word.ours) or (state == "drained" and word.by_itself):
        return _unfinished(case)
    return _leave(case, "that is not ours to undo")


def _unfinished(case: Case) -> Verdict:
    """A node that was drained over a rank that would not end comes back with proof that none is left."""
    if case.proof is Proof.NONE:
        return _wanted(case, Ask.PROVE, case.word.reason)
    if case.proof is Proof.CLEAR:
        return _wanted(case, Ask.RESUME, f"it was drained over “{case.word.reason}”, and no rank process is left there")
    waits = case.proof is Proof.ASKED
    return _leave(
        case, "its agent is asked for a proof" if waits else "nobody proved that no rank process is left there"
    )


def _wanted(case: Case, ask: Ask, why: str) -> Verdict:
    """An operator's hold keeps automation's hands off, in both directions."""
    return _leave(case, "an operator holds it") if case.held else Verdict(node=case.node, ask=ask, why=why)


def _leave(case: Case, why: str) -> Verdict:
    return Verdict(node=case.node, why=why)


def may_ask_again(asked_at: float | None, now: float, *, pending: bool) -> bool:
    """Say whether a request may be made: the first at once, the next only when the last has ended in vain."""
    return asked_at is None or (not pending and now - asked_at >= AGAIN_AFTER_S)
