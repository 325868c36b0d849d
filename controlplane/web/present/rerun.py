"""What happened beside what today's rules would do, the differences first.

Times are seconds after the incident's first bad moment, negative before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.diagnosis.classes import class_of
from controlplane.incidents.models import ActRecord, Incident
from controlplane.web.present import acts, words

SAME_S = 3.0
"""A live sweep comes up to a second late and a recording knows when events arrived: less is no difference."""
NEAR_S = 900.0
"""A replayed incident that opens within so long may be this one."""
ACT_SCORE = 4.0
ACT_MARGIN = 2.0
MAX_ACTS = 20
MAX_BESIDES = 20
LEAVES_OUT = frozenset({"replace", "quarantine", "drain"})
NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One telling of the incident; `suspects` is what the diagnosis names, best first."""

    klass: str
    severity: str
    suspected_s: float | None
    confirmed_s: float | None
    suspects: tuple[Mapping[str, Any], ...]
    acts: tuple[tuple[float, str], ...]
    left_out: frozenset[str]

    @property
    def blamed(self) -> tuple[str, ...]:
        """Name those with enough evidence to act on."""
        return tuple(_spoken(one) for one in self.suspects if _enough(one))

    @property
    def done(self) -> list[str]:
        """Write the acts without their times."""
        return sorted(told for _, told in self.acts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; a cell is a list of lines."""

    name: str
    was: list[str]
    would: list[str]
    differs: bool


def happened(incident: Incident, done: Iterable[ActRecord]) -> Side:
    """Give the incident as it went."""
    began, rows = incident.began_at, list(done)
    return Side(
        klass=incident.klass, severity=incident.severity, suspected_s=(incident.opened_at - began).total_seconds(),
        confirmed_s=(incident.confirmed_at - began).total_seconds() if incident.confirmed_at else None,
        suspects=_suspects(incident.blamed),
        acts=tuple(((row.at - began).total_seconds(), _act(row.do, row.node, row.args, row.proposed)) for row in rows),
        left_out=_left_out((row.do, row.node, row.args) for row in rows if not row.proposed),
    )  # fmt: skip


def replayed(report: Mapping[str, Any], place: int, zero_t: float) -> Side:
    """Give an incident of a report by its place; `zero_t` is the first bad moment in the report's time."""
    found = _dicts(report.get("incidents"))[place]
    mine = [act for act in _dicts(report.get("actions")) if act.get("incident") == place]
    done = [(_number(act.get("t")) - zero_t, str(act.get("do")), act.get("node"), act) for act in mine]
    return Side(
        klass=str(found.get("class", "")), severity=str(found.get("severity", "")),
        suspected_s=_after(found.get("opened_t"), zero_t), confirmed_s=_after(found.get("confirmed_t"), zero_t),
        suspects=_suspects(found.get("blamed")),
        acts=tuple((at, _act(do, node, act, bool(act.get("proposed")))) for at, do, node, act in done),
        left_out=_left_out((do, node, act) for _, do, node, act in done if not act.get("proposed")),
    )  # fmt: skip


def _after(t: Any, zero_t: float) -> float | None:
    return t - zero_t if isinstance(t, int | float) else None


def matching(report: Mapping[str, Any], run: str, klass: str, opened_t: float) -> int | None:
    """Find the place of the report's incident that is this one: of the same run and, if one is near, of its class."""
    near = [
        (one.get("class") != klass, abs(_number(one.get("opened_t")) - opened_t), place)
        for place, one in enumerate(_dicts(report.get("incidents")))
        if one.get("run") == run and _is_near(one, opened_t)
    ]
    return min(near)[2] if near else None


def _is_near(one: Mapping[str, Any], opened_t: float) -> bool:
    """Tell whether it opened within NEAR_S, or was open already."""
    begin, end = _number(one.get("opened_t")), one.get("resolved_t")
    return abs(begin - opened_t) <= NEAR_S or (begin <= opened_t and (end is None or _number(end) >= opened_t))


def besides(report: Mapping[str, Any], place: int | None, zero_t: float) -> list[tuple[str, str]]:
    """List the report's other incidents as time and title."""
    others = [one for number, one in enumerate(_dicts(report.get("incidents"))) if number != place]
    return [
        (moment(_number(one.get("opened_t")) - zero_t), words.sentence(str(one.get("title", ""))))
        for one in others[:MAX_BESIDES]
    ]


def sentence(was: Side, would: Side | None, under: Sequence[str] = ()) -> str:
    """Say in one sentence what today's rules, with the settings `under`, would have done differently."""
    rules = f"Today's rules{' with ' + words.joined(list(under)) if under else ''} would have"
    if would is None:
        return f"{rules} found nothing here."
    clauses = [*_timing(was, would), *_naming(was, would), *_blaming(was, would), *_acting(was, would)]
    return f"{rules} {words.joined(clauses)}." if clauses else f"{rules} found and done the same."


def _timing(was: Side, would: Side) -> list[str]:
    if was.confirmed_s is not None and would.confirmed_s is None:
        return ["only suspected it"]
    if was.confirmed_s is None and would.confirmed_s is not None:
        return [f"confirmed it {moment(would.confirmed_s)}"]
    both = was.confirmed_s is not None
    before, then = (was.confirmed_s, would.confirmed_s) if both else (was.suspected_s, would.suspected_s)
    if before is None or then is None or abs(before - then) <= SAME_S:
        return []
    much = f"{words.span(abs(before - then))} {'earlier' if then < before else 'later'}"
    return [f"{'found' if both else 'suspected'} it {much}"]


def _naming(was: Side, would: Side) -> list[str]:
    return [] if was.klass == would.klass else [f"called it {title(would.klass)} instead of {title(was.klass)}"]


def _blaming(was: Side, would: Side) -> list[str]:
    if set(was.blamed) == set(would.blamed):
        return []
    before, then = (words.joined(list(side.blamed)) if side.blamed else NOBODY for side in (was, would))
    return [f"blamed {then} instead of {before}"]


def _acting(was: Side, would: Side) -> list[str]:
    more, fewer = sorted(would.left_out - was.left_out), sorted(was.left_out - would.left_out)
    clauses = [f"left out {words.joined(more)}"] if more else []
    clauses += [f"kept {words.joined(fewer)}"] if fewer else []
    if clauses or was.done == would.done:
        return clauses
    return ["done nothing"] if not would.acts else ["acted in another way" if was.acts else "acted"]


def rows(was: Side, would: Side | None) -> list[Row]:
    """Put both tellings side by side, what differs first."""
    there = would is not None
    told = [
        _row("Called", [words.sentence(title(was.klass))], [words.sentence(title(would.klass))] if would else []),
        _time_row("Suspected", was.suspected_s, would.suspected_s if would else None, there=there),
        _time_row("Confirmed", was.confirmed_s, would.confirmed_s if would else None, there=there),
        _row("Severity", [words.sentence(was.severity)], [words.sentence(would.severity)] if would else []),
        Row(name="Blamed", was=_named(was), would=_named(would) if would else [],
            differs=would is None or set(was.blamed) != set(would.blamed)),
        Row(name="Done", was=_done(was), would=_done(would) if would else [],
            differs=would is None or was.done != would.done),
    ]  # fmt: skip
    return sorted(told, key=lambda row: not row.differs)


def _row(name: str, was: list[str], would: list[str]) -> Row:
    return Row(name=name, was=was, would=would, differs=was != would)


def _time_row(name: str, was: float | None, would: float | None, *, there: bool) -> Row:
    known = was is not None and would is not None
    differs = abs((was or 0.0) - (would or 0.0)) > SAME_S if known else was is not would
    return Row(name=name, was=[_when(was)], would=[_when(would)] if there else [], differs=differs or not there)


def _when(after: float | None) -> str:
    return "Never" if after is None else words.sentence(moment(after))


def moment(after: float) -> str:
    """Write seconds after the first bad moment: `after 35 s`, `2 min before`."""
    return f"after {words.span(after)}" if after >= 0 else f"{words.span(-after)} before"


def title(klass: str) -> str:
    """Name a class as the other pages do."""
    return class_of(klass).title


def _named(side: Side) -> list[str]:
    """Write the suspects with their scores; who has not enough evidence is no more than that."""
    named = [
        f"{words.sentence(_spoken(one))}, score {_number(one.get('score')):.1f}"
        + ("" if _enough(one) else ": not enough to act on")
        for one in side.suspects[:3]
    ]
    return named or [words.sentence(NOBODY)]


def _done(side: Side) -> list[str]:
    told = [f"{words.sentence(what)} ({moment(at)})" for at, what in side.acts[:MAX_ACTS]]
    rest = len(side.acts) - MAX_ACTS
    return [*told, *([f"and {words.number(rest)} more"] if rest > 0 else [])] or ["Nothing"]


def _act(do: str, node: Any, args: Mapping[str, Any], proposed: bool) -> str:  # noqa: FBT001 - a fact of the act
    return f"{'propose to ' if proposed else ''}{acts.told(do, str(node) if node else None, args)}"


def _left_out(done: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> frozenset[str]:
    """Name the nodes that training went on without."""
    found: set[str] = set()
    for do, node, args in done:
        found |= {str(name) for name in args.get("exclude") or ()}
        found |= {str(node)} if node and do in LEAVES_OUT else set()
    return frozenset(found)


def _suspects(blamed: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(sorted(_dicts(blamed), key=lambda one: -_number(one.get("score"))))


def _enough(one: Mapping[str, Any]) -> bool:
    return _number(one.get("score")) >= ACT_SCORE and _number(one.get("margin")) >= ACT_MARGIN


def _spoken(one: Mapping[str, Any]) -> str:
    return str(one.get("entity", "")).replace(":", " ", 1)


def _dicts(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
