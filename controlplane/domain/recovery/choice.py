"""Which runbook answers a diagnosis, and what holds it back.

Whatever holds, the choice itself is told, so a person who decides sees what
automation would have done.
"""

from dataclasses import dataclass

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.holds import BY_ITSELF, HeldBy, Question, RunFacts, earliest, fails_again, first_hold
from controlplane.domain.recovery.responses import REPLACE, REPLACE_DOMAIN, excluded, rung
from controlplane.domain.recovery.runbook import Runbook

__all__ = ["OVER", "Decision", "HeldBy", "RunFacts", "choose"]

OVER = frozenset({"stopped", "completed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`runbook` None: nothing to do. `held_by` None: start at once.

    `not_before` is set with `held_by` backoff: start then, without a person. `rung` is
    the place on the ladder of methods 8. `over` says that nothing is left to answer.
    `proposes` is what a person is asked about, `patient` that nothing is touched at first.
    """

    runbook: str | None
    why: str
    exclude: tuple[str, ...] = ()
    held_by: str | None = None
    not_before: float | None = None
    rung: str = ""
    over: bool = False
    proposes: Do = Do.CHECK
    patient: bool = False

    @property
    def starts(self) -> bool:
        """Say whether the runbook starts by itself now."""
        return self.runbook is not None and self.held_by is None

    @property
    def waits(self) -> bool:
        """Say whether it starts by itself later, so that nobody need answer."""
        return self.runbook is not None and self.held_by in BY_ITSELF


def choose(diagnosis: Diagnosis, facts: RunFacts, policy: RunPolicy, catalog: Catalog) -> Decision:
    """Choose the runbook for a diagnosis and say what holds it back, if anything does."""
    if facts.state in OVER:
        return Decision(runbook=None, why=f"the run is {facts.state}", over=True)
    if diagnosis.cleared_up:
        return Decision(runbook=None, why="it cleared by itself", over=True)
    exclude = excluded(diagnosis, spares=facts.spares)
    again = fails_again(exclude, facts, policy)
    made = catalog.plan(diagnosis, exited=facts.exited, again=again)
    runbook = made.runbook
    if runbook is None:
        return Decision(runbook=None, why=made.why)
    if runbook.patient and not exclude:
        return Decision(runbook=None, why="no spare is free to take the place of the suspected node")
    step, exclude = climb(rung(runbook, diagnosis.klass, exclude), exclude, facts, policy)
    return _decided(
        Question(
            diagnosis=diagnosis, runbook=runbook, asks=made.asks, exclude=exclude, rung=step, facts=facts, policy=policy
        )
    )


def climb(step: str, exclude: tuple[str, ...], facts: RunFacts, policy: RunPolicy) -> tuple[str, tuple[str, ...]]:
    """Leave out the suspect's whole failure domain once replacing it alone was tried in vain (methods 8).

    Only where spares replace all of it: a neighbour is no more than suspected.
    """
    wider = tuple(dict.fromkeys((*exclude, *facts.neighbours)))
    in_vain = step == REPLACE and facts.tries.get(REPLACE, 0) >= policy.rung_tries
    if not in_vain or len(wider) == len(exclude) or len(wider) > facts.spares:
        return step, exclude
    return REPLACE_DOMAIN, wider


def _decided(asked: Question) -> Decision:
    held = first_hold(asked)
    by, why = held or (None, _reason(asked.runbook, asked.diagnosis, asked.exclude))
    return Decision(
        runbook=asked.runbook.id,
        why=why,
        exclude=asked.exclude,
        held_by=by.value if by else None,
        not_before=earliest(asked.facts, asked.policy) if by is HeldBy.BACKOFF else None,
        rung=asked.rung,
        proposes=asked.runbook.proposes,
        patient=asked.runbook.patient,
    )


def _reason(runbook: Runbook, diagnosis: Diagnosis, exclude: tuple[str, ...]) -> str:
    if exclude:
        names = ", ".join(exclude)
        when = " from the next complete checkpoint on" if runbook.patient else ""
        return f"node {names} is left out{when}" if len(exclude) == 1 else f"nodes {names} are left out{when}"
    if diagnosis.act_on:
        return f"node {diagnosis.act_on} is only suspected and no spare is free, so it stays"
    if suspected := next((blame.entity for blame in diagnosis.blamed if blame.entity.startswith("node:")), ""):
        return f"{suspected.replace(':', ' ', 1)} is only suspected so far, so none is left out yet"
    return "no node stands out, so none is left out"
