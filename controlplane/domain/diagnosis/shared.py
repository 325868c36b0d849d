"""Which incidents of different runs have one cause: the part that all of them share.

Each run is answered by itself, so each keeps its incident; but a switch that takes two
runs with it is one trouble to people. Only findings that speak of what several runs can
share count: a machine's own fault in the same rack is a coincidence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from controlplane.domain.diagnosis.inhibit import WINDOW_S

PLACES = ("switch", "rack", "zone")
"""Labels of nodes, the narrowest first: what is named is the smallest part that all share."""
OF_PLACES = frozenset({"node_lost", "correlated_loss", "network_fault"})
OF_STORAGE = "storage_stall"
OF_CHANGES = "environment_drift"
SIGHT = "blind"
STORAGE = "storage:"
"""A storage that nobody named, and the beginning of those with a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One open incident of a run: `began` in seconds, `parts` as `switch:s1`, `storage:/data`, `change:…`.

    `storage:` alone is a storage that nothing named.
    """

    number: int
    run: str
    klass: str
    began: float
    parts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """One part and the troubles of at least two runs that share it, oldest first."""

    part: str
    klass: str
    troubles: tuple[Trouble, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """Name the runs, each once."""
        return tuple(sorted({one.run for one in self.troubles}))


def shared(troubles: Iterable[Trouble]) -> list[Shared]:
    """Group troubles of different runs by what they share, within WINDOW_S of the first; each belongs to one group."""
    left = _with_names(sorted(troubles, key=lambda one: (one.began, one.number)))
    found = []
    for part in sorted({part for one in left for part in one.parts}, key=_narrowest):
        for together in _together([one for one in left if part in one.parts]):
            found.append(Shared(part=part, klass=_klass(part), troubles=tuple(together)))
            left = [one for one in left if one not in together]
    return found


def _together(here: Sequence[Trouble]) -> Iterator[Sequence[Trouble]]:
    """Yield the outages of one part, whose troubles come oldest first; an old one that stands alone hides none."""
    while here:
        within = [one for one in here if one.began - here[0].began <= WINDOW_S]
        several = len({one.run for one in within}) > 1
        if several:
            yield within
        here = here[len(within) if several else 1 :]


def _with_names(troubles: list[Trouble]) -> list[Trouble]:
    """Take a storage without a name for the one that the others name; where they name several it stays apart."""
    named = [one.parts for one in troubles if one.klass == OF_STORAGE and one.parts and STORAGE not in one.parts]
    common = frozenset.intersection(*named) if named else frozenset()
    return [replace(one, parts=common) if common and STORAGE in one.parts else one for one in troubles]


def _narrowest(part: str) -> tuple[int, str]:
    kind = part.partition(":")[0]
    return (PLACES.index(kind) if kind in PLACES else -1), part


def _klass(part: str) -> str:
    kind = part.partition(":")[0]
    return {"storage": OF_STORAGE, "change": OF_CHANGES}.get(kind, "correlated_loss")


def words(group: Shared) -> str:
    """Say what is shared and by whom, without full stop."""
    kind, _, name = group.part.partition(":")
    runs = _listed(group.runs)
    if kind == "storage":
        return f"runs {runs} wait for the same storage{f' {name}' if name else ''}"
    if kind == "change":
        return f"runs {runs} were launched with the same change: {name}"
    return f"runs {runs} lost nodes in {kind} {name}, which is what they share"


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
