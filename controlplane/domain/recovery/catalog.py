"""All runbooks together: which of them answers an incident."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.conditions import CONDITIONS, Case
from controlplane.domain.recovery.runbook import Answer, Runbook


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The runbook for a diagnosis, or None; `why` says what speaks against one, `asks` why a person decides."""

    runbook: Runbook | None
    why: str = ""
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The runbooks by id."""

    runbooks: Mapping[str, Runbook] = field(default_factory=dict)

    def answers_to(self, klass: str) -> Iterator[tuple[Runbook, Answer]]:
        """Yield what answers a class: the highest priority first, then by id, then in the order of the file."""
        ordered = sorted(self.runbooks.values(), key=lambda runbook: (-runbook.priority, runbook.id))
        for runbook in ordered:
            for answer in runbook.answers:
                if answer.klass == klass and runbook.enabled:
                    yield runbook, answer

    def plan(self, diagnosis: Diagnosis, *, exited: bool, again: bool = False) -> Plan:
        """Give the runbook that answers a diagnosis as it stands now: the first whose conditions all hold."""
        case, words = Case(diagnosis, exited, again), diagnosis.klass.replace("_", " ")
        nearest, why = -1, f"no runbook answers {words}"
        for runbook, answer in self.answers_to(diagnosis.klass):
            unmet = next((place for place, name in enumerate(answer.when) if not CONDITIONS[name].holds(case)), None)
            if unmet is None:
                return Plan(runbook=runbook, asks=answer.asks)
            if unmet > nearest:
                nearest, why = unmet, CONDITIONS[answer.when[unmet]].unless.format(klass=words)
        return Plan(runbook=None, why=why)
