"""Say what differs between two reports, as a person would ask it: found, done, lost."""

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

MAX_REPORT_BYTES = 256 << 20
ABOUT_INCIDENT = ("opened_t", "confirmed_t", "resolved_t", "severity", "blamed", "cleared")


def read(path: Path) -> dict[str, Any] | None:
    """Return the report in a file, None when it holds a trace instead.

    Raises:
        OSError: it cannot be read.
    """
    if path.stat().st_size > MAX_REPORT_BYTES:
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError:
        return None
    return found if isinstance(found, dict) and "incidents" in found else None


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two reports; every part is empty when nothing differs in it."""
    return {
        "incidents": _incidents(mine.get("incidents", []), theirs.get("incidents", [])),
        "actions": _actions(mine.get("actions", []), theirs.get("actions", [])),
        "accounting": _accounting(mine.get("accounting", {}), theirs.get("accounting", {})),
        "fleet": _fleet(mine.get("fleet", {}), theirs.get("fleet", {})),
    }


def _incidents(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pair incidents of one class and run in order, and tell what only one side has or sees otherwise."""
    found: list[dict[str, Any]] = []
    kinds = dict.fromkeys((one["class"], one["run"]) for one in [*mine, *theirs])
    for klass, run in kinds:
        here = [one for one in mine if (one["class"], one["run"]) == (klass, run)]
        there = [one for one in theirs if (one["class"], one["run"]) == (klass, run)]
        for left, right in zip_longest(here, there):
            changed = _changed(left, right)
            if changed:
                found.append({"class": klass, "run": run, **changed})
    return found


def _changed(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    if left is None or right is None:
        one, side = (left, "only_here") if right is None else (right, "only_there")
        return {side: True, "opened_t": one["opened_t"], "title": one.get("title", "")} if one else {}
    return {
        name: {"here": left.get(name), "there": right.get(name)}
        for name in ABOUT_INCIDENT
        if left.get(name) != right.get(name)
    }


def _actions(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pair acts of one kind and subject in order; a different time or argument is a difference."""
    kinds = dict.fromkeys(_subject(one) for one in [*mine, *theirs])
    found: list[dict[str, Any]] = []
    for kind in kinds:
        here = [one for one in mine if _subject(one) == kind]
        there = [one for one in theirs if _subject(one) == kind]
        for left, right in zip_longest(here, there):
            if _plain(left) != _plain(right):
                found.append({"here": left, "there": right})
    return sorted(found, key=lambda pair: (pair["here"] or pair["there"])["t"])


def _subject(act: Mapping[str, Any]) -> tuple[Any, ...]:
    return act.get("do"), act.get("run"), act.get("node"), bool(act.get("proposed"))


def _plain(act: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if act is None else {name: value for name, value in act.items() if name != "incident"}


def _accounting(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    here, there = _flat(mine), _flat(theirs)
    names = dict.fromkeys([*here, *there])
    return {
        name: {"here": here.get(name), "there": there.get(name)} for name in names if here.get(name) != there.get(name)
    }


def _flat(accounting: Mapping[str, Any]) -> dict[str, Any]:
    labels = {f"{label}_s": value for label, value in accounting.get("by_label_s", {}).items()}
    return {**{name: value for name, value in accounting.items() if name != "by_label_s"}, **labels}


def _fleet(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    names = dict.fromkeys([*mine, *theirs])
    return {
        name: {"here": mine.get(name), "there": theirs.get(name)}
        for name in names
        if mine.get(name) != theirs.get(name)
    }
