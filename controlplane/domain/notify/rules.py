"""Who is told of what: a rule wants a call by its severity, run, class and hour.

A call is loud when a person is needed now, and quiet when it is only worth knowing.
Severities that nobody knows count as the worst: it is better to be told once too often.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.chronicle.words import duration
from controlplane.domain.notify.hours import Hours

SEVERITIES = ("info", "warning", "critical")


class Takes(StrEnum):
    """Which calls a rule is for."""

    LOUD = "loud"
    QUIET = "quiet"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What people are to be told of; `run` "" is the fleet."""

    subject: str
    run: str = ""
    klass: str = ""
    severity: str = "critical"
    loud: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of an escalation: whom to tell, and how long after the step before."""

    after_s: float
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule; empty `runs` and `classes` mean all of them."""

    least: str = "info"
    takes: Takes = Takes.LOUD
    runs: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    hours: Hours = field(default_factory=Hours)
    remind_s: float = 0.0

    def wants(self, call: Call, now: datetime) -> bool:
        """Tell whether this rule wants the call at `now`."""
        return (
            self.takes in (Takes.BOTH, Takes.LOUD if call.loud else Takes.QUIET)
            and weight(call.severity) >= weight(self.least)
            and (not self.runs or call.run in self.runs)
            and (not self.classes or call.klass in self.classes)
            and self.hours.holds(now)
        )

    @property
    def wakes_for_anything(self) -> bool:
        """Tell whether a critical call of any run and class passes, hours aside."""
        return self.takes != Takes.QUIET and not self.runs and not self.classes


def weight(severity: str) -> int:
    """Order severities; one that nobody knows weighs most."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def words(rule: Rule, steps: Sequence[Step]) -> str:
    """Say a rule in one sentence."""
    what = {Takes.LOUD: "pages", Takes.QUIET: "notes", Takes.BOTH: "pages and notes"}[rule.takes]
    least = (
        ""
        if rule.least == SEVERITIES[0]
        else f" that are {rule.least}{'' if rule.least == 'critical' else ' or worse'}"
    )
    of_runs = f" of {' and '.join(sorted(rule.runs))}" if rule.runs else " of any run and of the fleet"
    classes = f" of class {' or '.join(sorted(rule.classes))}" if rule.classes else ""
    told = "; ".join(_step(step, first=index == 0) for index, step in enumerate(steps)) or "nobody is told"
    remind = f"; again {duration(rule.remind_s)} after an acknowledgement if it is still open" if rule.remind_s else ""
    return f"{what}{least}{of_runs}{classes}, {rule.hours.words}: {told}{remind}"


def _step(step: Step, *, first: bool) -> str:
    whom = " and ".join(step.transports) or "nobody"
    if first:
        return f"after {duration(step.after_s)} {whom}" if step.after_s else f"at once {whom}"
    return f"{duration(step.after_s)} later, unless acknowledged, {whom}"
