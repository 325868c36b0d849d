"""Which moves of a node's ledger state make sense.

The table is data so that the page, the ledger and the checks say the same. A
move that is not listed is a mistake of the caller, never something to force:
out of quarantine a node goes to repair, to proof or, released, to the pool (L-02, L-05).
"""

from collections.abc import Mapping

from controlplane.domain.errors import Refused

ALLOWED: Mapping[str, frozenset[str]] = {
    "unknown": frozenset({"healthy", "spare", "suspect", "quarantined", "retired"}),
    "healthy": frozenset({"spare", "suspect", "draining", "quarantined", "retired"}),
    "spare": frozenset({"healthy", "suspect", "draining", "quarantined", "retired"}),
    "suspect": frozenset({"healthy", "spare", "draining", "quarantined", "retired"}),
    "draining": frozenset({"healthy", "spare", "suspect", "quarantined", "repairing", "retired"}),
    "quarantined": frozenset({"repairing", "proving", "spare", "healthy", "retired"}),
    "repairing": frozenset({"quarantined", "proving", "retired"}),
    "proving": frozenset({"quarantined", "spare", "healthy", "retired"}),
    "retired": frozenset({"unknown"}),
}

USABLE = frozenset({"healthy", "spare"})
"""States whose nodes may be given to a new attempt."""

KEPT_OUT = frozenset({"draining", "quarantined", "repairing", "proving", "retired"})
"""States whose nodes are never given to a new attempt."""

BANNED = KEPT_OUT - {"draining"}
"""States in which a machine is kept out whatever name it uses; one that drains still works."""


def may_move(old: str, new: str) -> bool:
    """Say whether the ledger knows the move from `old` to `new`."""
    return new in ALLOWED.get(old, frozenset())


def check(old: str, new: str) -> None:
    """Raise `Refused` unless the ledger knows the move from `old` to `new`."""
    if not may_move(old, new):
        raise Refused(f"a node cannot go from {old} to {new}")
