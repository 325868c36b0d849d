"""Who stands where: the stacks of an attempt, grouped, the few before the many.

Of a thousand ranks that hang, nearly all wait for the rest, and their stacks are the
same. What matters is who stands elsewhere, so ranks are grouped by what they do and
by the innermost line of the program that is not a library's, and the smallest group
is told first. A rank that gave no stack belongs to a group of its own: in a hang
that is the strongest hint of all (R-02, H-21).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

MAX_RANKS = 16_384
MAX_GROUPS = 16
MAX_LOOKED = 64
MAX_FRAMES = 12
"""Frames that a group shows, the innermost first."""
MAX_FRAME = 300
MAX_LISTED = 512
"""Ranks that a group names; the others are counted."""
SPOKEN_GROUPS = 3
SPOKEN_RANKS = 8
NO_STACK = "gave no stack"

_FRAME = re.compile(r"(?P<function>.*) \((?P<path>[^()]*):(?P<line>\d+)\)")
_NOISE = re.compile(
    r"(?:torch|numpy|concurrent|multiprocessing|asyncio|importlib|middlewatch_agent)/"
    r"|(?:threading|contextlib|functools|runpy|selectors|socket|queue|traceback|<frozen [\w.]+>)(?:\.py)?$"
)
"""Files in which no question about a training is answered."""
_DOING = (
    (re.compile(r"torch/utils/data/"), "the data loader"),
    (re.compile(r"torch/distributed/checkpoint/"), "a checkpoint"),
    (re.compile(r"torch/autograd/"), "the backward pass"),
)
_COLLECTIVE = re.compile(
    r"_?(all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|barrier|monitored_barrier|scatter|gather|reduce"
    r"|send|recv|batch_isend_irecv)(?:_\w+)?"
)
_OF_MANY = {"waits": "wait", "stands": "stand"}
_STATES = {"T": "stopped", "t": "stopped", "D": "stuck in the kernel", "Z": "a zombie", "X": "dead"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was learned of one rank, frames innermost first; those of one that did not answer were read from outside."""

    rank: int
    frames: tuple[str, ...] = ()
    answered: bool = False
    proc_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Ranks that stand in the same place. `words` say what they do, `ranks` are the first MAX_LISTED of `count`."""

    words: str
    ranks: tuple[int, ...]
    count: int
    frames: tuple[str, ...] = ()
    answered: bool = True

    @property
    def who(self) -> str:
        """Name the ranks: `rank 3`, or `ranks 0, 1 and 5 more`."""
        named = [str(rank) for rank in self.ranks[:SPOKEN_RANKS]]
        more = self.count - len(named)
        listed = ", ".join(named) + (f" and {more} more" if more else "")
        return f"rank {listed}" if self.count == 1 else f"ranks {listed}"


@dataclass(slots=True)
class _Members:
    ranks: list[int] = field(default_factory=list)
    frames: tuple[str, ...] = ()


def group(standing: Iterable[Standing]) -> tuple[StackGroup, ...]:
    """Group ranks by where they stand, the smallest group first; of two alike the one that did not answer."""
    members: dict[tuple[str, bool], _Members] = {}
    where = cache(place)
    for one in sorted(standing, key=lambda one: one.rank)[:MAX_RANKS]:
        frames = tuple(frame[:MAX_FRAME] for frame in one.frames[:MAX_LOOKED])
        words = where(frames) if one.answered else _silence(one.proc_state)
        known = members.setdefault((words, one.answered), _Members())
        known.ranks.append(one.rank)
        known.frames = known.frames or frames[:MAX_FRAMES]
    found = [
        StackGroup(words=words, ranks=tuple(known.ranks[:MAX_LISTED]), count=len(known.ranks), frames=known.frames,
                   answered=answered)
        for (words, answered), known in members.items()
    ]  # fmt: skip
    found.sort(key=lambda one: (one.count, one.answered, one.ranks))
    return _bounded(found)


def _bounded(found: list[StackGroup]) -> tuple[StackGroup, ...]:
    """Keep the smallest groups and the largest; what lies between becomes one group."""
    if len(found) <= MAX_GROUPS:
        return tuple(found)
    kept, rest, largest = found[: MAX_GROUPS - 2], found[MAX_GROUPS - 2 : -1], found[-1]
    ranks = sorted(rank for one in rest for rank in one.ranks)[:MAX_LISTED]
    others = StackGroup(
        words=f"in {len(rest)} further places", ranks=tuple(ranks), count=sum(one.count for one in rest)
    )
    return (*kept, others, largest)


def place(frames: Sequence[str]) -> str:
    """Say what a stack does and where, from its innermost frames."""
    if not frames:
        return NO_STACK
    own = next((frame for frame in frames if not _is_noise(frame)), "")
    where = _short(own or frames[0])
    collective = next((name for frame in frames if (name := _collective(frame))), "")
    if collective:
        return f"waits in {collective} ({where})"
    inside = next((what for frame in frames for path, what in _DOING if path.match(_path(frame))), "")
    if inside:
        return f"stands in {inside} ({where})"
    function = _function(own or frames[0])
    return f"stands in {function} ({where})" if function else f"stands in {where}"


def _path(frame: str) -> str:
    found = _FRAME.fullmatch(frame)
    return found["path"] if found else ""


def _function(frame: str) -> str:
    found = _FRAME.fullmatch(frame)
    return found["function"] if found else ""


def _is_noise(frame: str) -> bool:
    return bool(_NOISE.match(_path(frame)))


def _collective(frame: str) -> str:
    """The collective that a frame of torch's distributed package is in, or nothing."""
    if not _path(frame).startswith("torch/distributed/") or "/checkpoint/" in _path(frame):
        return ""
    found = _COLLECTIVE.fullmatch(_function(frame))
    return found[1] if found else ""


def _short(frame: str) -> str:
    """The file without its folders, and the line."""
    found = _FRAME.fullmatch(frame)
    return f"{found['path'].rpartition('/')[2]}:{found['line']}" if found else frame[:MAX_FRAME]


def _silence(proc_state: str) -> str:
    state = _STATES.get(proc_state)
    return f"did not answer ({state})" if state else "did not answer"


def sentence(groups: Sequence[StackGroup]) -> str:
    """Tell the groups in one sentence, the many first; "" when there are none."""
    if not groups:
        return ""
    total = sum(one.count for one in groups)
    if len(groups) == 1:
        return f"All {total} ranks {_words(groups[0])}." if total > 1 else f"The only rank {_words(groups[0])}."
    *few, many = groups
    told = ", ".join([f"{many.count} {_words(many)}", *(f"{one.who} {_words(one)}" for one in few[:SPOKEN_GROUPS])])
    more = len(few) - SPOKEN_GROUPS
    rest = f", and {more} more group{'s' * (more != 1)}" if more > 0 else ""
    return f"Of {total} ranks {told}{rest}."


def _words(one: StackGroup) -> str:
    return one.words if one.count == 1 else _plural(one.words)


def _plural(words: str) -> str:
    verb, space, rest = words.partition(" ")
    return f"{_OF_MANY.get(verb, verb)}{space}{rest}"
