"""Take in what agents collected on command: stacks, collective records, process states.

Of a stack its place is kept, in the words by which people see ranks grouped: the innermost
frame alone is a library's, and differs between ranks that wait for the same.
"""

from collections.abc import Mapping
from functools import lru_cache

from controlplane.domain.detection import reading
from controlplane.domain.detection.places import rank_of
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_RANKS, Member, RunState
from controlplane.domain.diagnosis.stacks import MAX_LOOKED, place
from controlplane.domain.signals import Signal

MAX_GROUPS = 64
_place = lru_cache(maxsize=128)(place)


def stack(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in one rank's stack, or its process state."""
    rank = rank_of(state, signal)
    if rank is None:
        return
    found, frames = rank.collected, reading.names(signal.data, "frames", MAX_LOOKED)
    found.at = max(found.at, signal.received)
    if reading.text(signal.data, "tool") == "proc":
        words = frames[0].split() if frames else []
        found.proc_state = words[1][:1].upper() if words[:1] == ["state"] and words[1:] else found.proc_state
        return
    answered = signal.data.get("ok") is True
    found.answered = answered or bool(found.answered)
    found.place = _place(tuple(frames)) if answered and frames else found.place


def collective(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in how far a rank came in a collective group."""
    rank = rank_of(state, signal)
    group, seq = str(signal.data.get("group", ""))[: reading.MAX_TEXT], reading.integer(signal.data, "seq")
    if rank is None or seq is None or (group not in rank.groups and len(rank.groups) >= MAX_GROUPS):
        return
    known = rank.groups.setdefault(group, Member())
    if seq >= known.seq:
        missing = reading.integers(signal.data, "missing", MAX_RANKS)
        rank.groups[group] = Member(seq=seq, op=reading.text(signal.data, "op"), missing=missing)
        rank.collected.at = max(rank.collected.at, signal.received)


def result(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Read the answer of a `collect`: who was found in which state, who answered."""
    attempt = state.attempt
    ranks = reading.mapping(reading.mapping(signal.data, "data"), "ranks")
    if attempt is None or (signal.attempt is not None and signal.attempt != attempt.number):
        return
    for key, found in list(ranks.items())[:MAX_RANKS]:
        rank = attempt.ranks.get(int(key)) if str(key).isdecimal() else None
        if rank is None or rank.node != signal.node or not isinstance(found, Mapping):
            continue
        rank.collected.at = max(rank.collected.at, signal.received)
        rank.collected.proc_state = reading.text(found, "proc_state")[:1].upper() or rank.collected.proc_state
        if isinstance(found.get("answered"), bool):
            rank.collected.answered = found["answered"] or bool(rank.collected.answered)
