"""What a collection of stacks and collective records says about who is stuck.

A process that was stopped explains its own silence, so that evidence stays with the
rank. A rank that does not answer, or is missing, without such an explanation speaks
against its machine (methods 7 and 11.13).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from statistics import median

from controlplane.domain.detection import weights
from controlplane.domain.detection.state import AttemptState, Collected, RankState
from controlplane.domain.findings import Evidence

MINORITY_GROUP = 8
ANSWER_GRACE_S = 10.0
MINORITY_SHARE = 0.2
GONE = {"Z": "its process is a zombie (state Z)", "X": "its process is dead (state X)"}
STOPPED = "T"
STUCK = "D"


@dataclass(frozen=True, slots=True)
class Testimony:
    """`independent` says that the evidence confirms a hang without waiting for the clock."""

    evidence: tuple[Evidence, ...]
    independent: str

    @property
    def entity(self) -> str:
        """Give the entity that most speaks against, `run` when none does."""
        totals: Counter[str] = Counter()
        for line in self.evidence:
            totals[line.entity] += line.weight  # type: ignore[assignment]
        return max(sorted(totals), key=lambda name: totals[name]) if totals else "run"


def testimony(attempt: AttemptState, *, since: float, now: float, awake: Collection[str]) -> Testimony:
    """Read what was collected from `since` to `now` (seconds since the epoch).

    `awake` names the nodes heard since then: only their ranks can have been asked.
    """
    asked = {number: rank for number, rank in attempt.ranks.items() if rank.collected.at >= since}
    states = _process_states(asked)
    silent = _no_answer({**asked, **_unheard(attempt, asked, awake, now)})
    absent = _absent(attempt, asked)
    behind = _behind(attempt)
    minority = _minority(asked)
    strong = [*states, *silent, *absent]
    return Testimony((*strong, *behind, *minority), strong[0].text if strong else "")


def _place(number: int, rank: RankState) -> str:
    explained = rank.collected.proc_state in (STOPPED, *GONE) or rank.exited
    return f"rank:{number}" if explained or not rank.node else f"node:{rank.node}"


def _process_states(asked: Mapping[int, RankState]) -> list[Evidence]:
    found = []
    for number, rank in sorted(asked.items()):
        word = rank.collected.proc_state
        if word == STOPPED:
            text = f"rank {number} on {rank.node} is stopped (process state T)"
            found.append(_line(rank, f"rank:{number}", weights.PROCESS_STOPPED, text, "process stopped"))
        elif word in GONE:
            text = f"rank {number} on {rank.node}: {GONE[word]}"
            found.append(_line(rank, f"rank:{number}", weights.PROCESS_STOPPED, text, "process gone"))
        elif word == STUCK and rank.collected.answered is False:
            text = f"rank {number} on {rank.node} is stuck in the kernel (process state D)"
            found.append(_line(rank, f"node:{rank.node}", weights.PROCESS_STUCK, text, "process stuck"))
    return found


def _unheard(
    attempt: AttemptState, asked: Mapping[int, RankState], awake: Collection[str], now: float
) -> dict[int, RankState]:
    """Ranks of nodes that are awake from which nothing came, some time after the others' answers."""
    answers = [rank.collected.at for rank in asked.values() if rank.collected.answered]
    if not answers or now < min(answers) + ANSWER_GRACE_S:
        return {}
    mute = Collected(at=min(answers), answered=False)
    return {
        number: replace(rank, collected=mute)
        for number, rank in attempt.ranks.items()
        if number not in asked and rank.node in awake and not rank.exited
    }


def _no_answer(asked: Mapping[int, RankState]) -> list[Evidence]:
    """One line per node whose ranks gave no stack while most others did."""
    heard = {number: rank for number, rank in asked.items() if rank.collected.answered is not None}
    mute = {number: rank for number, rank in heard.items() if rank.collected.answered is False}
    if not mute or 2 * len(mute) > len(heard):
        return []
    return _per_place(mute, weights.NO_ANSWER, "gave no stack while the others did", "no answer")


def _per_place(ranks: Mapping[int, RankState], weight: float, what: str, kind: str) -> list[Evidence]:
    places: dict[str, list[int]] = {}
    for number, rank in sorted(ranks.items()):
        places.setdefault(_place(number, rank), []).append(number)
    return [
        _line(ranks[numbers[0]], place, weight, f"{_ranks(numbers, ranks[numbers[0]].node)} {what}", kind)
        for place, numbers in places.items()
    ]


def _ranks(numbers: list[int], node: str) -> str:
    word = "rank" if len(numbers) == 1 else "ranks"
    return f"{word} {', '.join(str(number) for number in numbers[:8])} on {node}"


def _absent(attempt: AttemptState, asked: Mapping[int, RankState]) -> list[Evidence]:
    """Ranks missing from the earliest collective that others wait in, by majority of the records."""
    votes: Counter[int] = Counter()
    voters = 0
    for rank in asked.values():
        missing = {number for member in rank.groups.values() for number in member.missing}
        voters += bool(missing)
        votes.update(missing)
    named = {number for number, count in votes.items() if 2 * count > voters} | _short(asked)
    guilty = {number: attempt.ranks[number] for number in named if number in attempt.ranks}
    if not guilty or 2 * len(guilty) > len(attempt.ranks):
        return []
    return _per_place(guilty, weights.ABSENT, "is missing from the collective that the others wait in", "absent")


def _short(asked: Mapping[int, RankState]) -> set[int]:
    """Ranks whose own record of a group ends before the one of most of its members."""
    short: set[int] = set()
    for group in {name for rank in asked.values() for name in rank.groups}:
        seqs = {number: rank.groups[group].seq for number, rank in asked.items() if group in rank.groups}
        middle = median(seqs.values())
        short |= {number for number, seq in seqs.items() if seq < middle}
    return short


def _behind(attempt: AttemptState) -> list[Evidence]:
    """A rank whose last completed step lies below that of most others."""
    done = {number: max(rank.step or 0, rank.window_step or 0) for number, rank in attempt.ranks.items()}
    reporting = {
        number: step for number, step in done.items() if step and attempt.ranks[number].window_step is not None
    }
    if len(reporting) < 2:  # noqa: PLR2004 - one rank has no peers
        return []
    windows = {number: attempt.ranks[number].window_step or 0 for number in reporting}
    middle = median(windows.values())
    late = {number: attempt.ranks[number] for number, step in windows.items() if step < middle}
    if not late or 2 * len(late) > len(windows):
        return []
    what = f"is behind its peers, which completed step {int(middle)}"
    return _per_place(late, weights.BEHIND, what, "behind")


def _minority(asked: Mapping[int, RankState]) -> list[Evidence]:
    """Ranks of a large group that stand where few stand (methods 11.13), by the place that people see too."""
    places = {number: rank.collected.place for number, rank in asked.items() if rank.collected.place}
    if len(places) < MINORITY_GROUP:
        return []
    standing = Counter(places.values())
    few = {number: asked[number] for number, place in places.items() if standing[place] < MINORITY_SHARE * len(places)}
    if not few or len(few) >= MINORITY_SHARE * len(places):
        return []
    first = places[min(few)]
    return _per_place(few, weights.MINORITY, f"stands apart from the others: {first}", "minority")


def _line(rank: RankState, entity: str, weight: float, text: str, kind: str) -> Evidence:
    return Evidence(at=rank.collected.at or rank.step_at, entity=entity, weight=weight, text=text, kind=kind)
