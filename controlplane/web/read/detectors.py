"""Everything that the page of a run's detectors shows, and what its form means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.analytics.whatif import Comparison, Verdict
from controlplane.domain.detection.detectors import DETECTORS
from controlplane.domain.detection.modes import Mode
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.errors import Invalid
from controlplane.incidents.models import Observation
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.web.present import words

MAX_SHOWN = 30
MAX_OBSERVED = 20
MAX_RULES = 200
UNITS = {"_s": "s", "_ms": "ms", "_pct": "%", "_share": "share", "_steps": "steps"}
NAMES = frozenset(item["name"] for item in RunPolicy().describe())


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One threshold: `text` is what stands in its field, empty for the default."""

    name: str
    words: str
    text: str
    default: str
    unit: str
    source: str
    low: str
    high: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A detector with its mode and its thresholds."""

    id: str
    name: str
    words: list[str]
    mode: str
    settings: list[Setting]

    @property
    def changed(self) -> int:
        """How many of its settings, its mode among them, are not the default."""
        return changed(self.settings) + (self.mode != Mode.ACT)


def changed(settings: Sequence[Setting]) -> int:
    """Count the settings that are not the default."""
    return sum(item.changed for item in settings)


def state(run: Run, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Read the page for the overrides `wanted`, which may not be saved yet."""
    described = {item["name"]: item for item in RunPolicy().describe()}
    shown = {name: _setting(item, wanted) for name, item in described.items()}
    modes = dict(wanted.get("modes", {}))
    groups: list[Group] = []
    taken: set[str] = set()
    for detector in DETECTORS:
        mine = [item for name, item in shown.items() if name.startswith(detector.settings) and name not in taken]
        taken |= {item.name for item in mine}
        known = next((group for group in groups if group.id == detector.id), None)
        if known is not None:
            known.settings.extend(mine)
            known.words.append(detector.words)
            continue
        groups.append(
            Group(id=detector.id, name=detector.name, words=[detector.words], mode=modes.pop(detector.id, Mode.ACT),
                  settings=mine)
        )  # fmt: skip
    others = [item for name, item in shown.items() if name not in taken]
    return {
        "run": run,
        "groups": groups,
        "others": others,
        "others_changed": changed(others),
        "modes": list(Mode),
        "rules": "\n".join(f"{rule} {mode}" for rule, mode in sorted(modes.items())),
        "learned": _learned(run),
        "observed": Observation.objects.filter(run=run)[:MAX_OBSERVED],
    }


def _setting(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> Setting:
    name = item["name"]
    unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")
    return Setting(
        name=name, words=item["words"], unit=unit, source=item["source"],
        text=_plain(wanted[name]) if name in wanted else "",
        default="none" if item["default"] is None else _plain(item["default"]),
        low=_plain(item["low"]), high=_plain(item["high"]), changed=name in wanted,
    )  # fmt: skip


def _plain(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def _learned(run: Run) -> list[tuple[str, str]]:
    """Say what the reducer has learned; a learned value is never shown as a setting."""
    view = runs.view(run)
    if view is None:
        return []
    seen = words.plural(view.samples, "step")
    median = f"unknown after {seen}" if view.median_step_s is None else f"{words.span(view.median_step_s)} (of {seen})"
    waits = f"{view.waits_for} within {words.span(view.deadline_s)}" if view.deadline_s is not None else "nothing"
    return [
        ("Median step", median),
        ("Factor of the deadline", f"{view.k:.2f} medians"),
        ("Waits for", waits),
    ]


def overrides(form: Mapping[str, str]) -> dict[str, Any]:
    """Read the form; an empty field means the default. Raises `Invalid` naming the field."""
    wanted: dict[str, Any] = {}
    modes: dict[str, str] = {}
    for name, text in form.items():
        if name in NAMES and text.strip():
            wanted[name] = _number(name, text.strip())
        elif name.startswith("mode.") and text != Mode.ACT:
            modes[name.removeprefix("mode.")] = text
    modes |= _rules(form.get("rules", ""))
    if modes:
        wanted["modes"] = modes
    RunPolicy.from_overrides(wanted)
    return wanted


def _number(name: str, text: str) -> float | int:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        raise Invalid(name, "must be a number") from None
    return int(value) if value.is_integer() else value


def _rules(text: str) -> dict[str, str]:
    rules = {}
    for line in text.splitlines()[:MAX_RULES]:
        rule, _, mode = line.strip().partition(" ")
        if rule:
            rules[rule[:64]] = mode.strip() or Mode.ACT.value
    return rules


def preview(found: Comparison) -> dict[str, Any]:
    """Put a comparison into words: what would be found besides, what no longer, and what at another time."""
    before, after = ({item.key: item for item in side} for side in (found.now, found.then))
    both = ((before[key], after[key]) for key in before.keys() & after.keys())
    moved = sorted((pair for pair in both if _times(pair[0]) != _times(pair[1])), key=lambda pair: pair[0].at)
    return {
        "begin": found.begin, "cut": found.cut, "events": words.number(found.events),
        "sentence": _sentence(found), "same": before.keys() == after.keys() and not moved,
        "more": _lines(after[key] for key in after.keys() - before.keys()),
        "fewer": _lines(before[key] for key in before.keys() - after.keys()),
        "moved": [{"before": _line(old), "after": _line(new)} for old, new in moved[:MAX_SHOWN]],
    }  # fmt: skip


def _sentence(found: Comparison) -> str:
    now, then = (sum(item.confirmed_at is not None for item in side) for side in (found.now, found.then))
    doubts = [sum(item.confirmed_at is None for item in side) for side in (found.now, found.then)]
    return (
        f"As it is: {words.plural(now, 'confirmed finding')} and {words.plural(doubts[0], 'suspicion')} that cleared. "
        f"As changed: {then} and {doubts[1]}."
    )


def _times(item: Verdict) -> tuple[Any, ...]:
    return item.klass, *(None if at is None else round(at) for at in (item.suspected_at, item.confirmed_at))


def _lines(found: Iterable[Verdict]) -> list[dict[str, Any]]:
    return [_line(item) for item in sorted(found, key=lambda item: item.at)[:MAX_SHOWN]]


def _line(item: Verdict) -> dict[str, Any]:
    return {
        "at": datetime.fromtimestamp(item.at, UTC), "klass": item.klass.replace("_", " "), "detector": item.detector,
        "sentence": item.sentence, "stage": "confirmed" if item.confirmed_at is not None else "suspicion only",
    }  # fmt: skip
