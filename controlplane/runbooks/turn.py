"""Everything one turn of an execution may see and do, read fresh in its transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.action import Effect
from controlplane.domain.recovery.acts import Act, Do
from controlplane.domain.recovery.runbook import Runbook, StepSpec
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command
from controlplane.incidents import acts as records
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import stream
from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.leases import Lease
from controlplane.runs.models import Attempt, Run


@dataclass
class Turn:
    """One transaction of an execution: the world as it is now, and the sentences it tells."""

    execution: Execution
    runbook: Runbook
    now: datetime
    book: Book
    step_run: StepRun | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    lease: Lease | None = None
    """The worker's claim; every transition renews it."""
    effect: Effect | None = None
    """What the step at hand may change, as it was when the turn began."""
    undo: StepSpec | None = None
    """What takes the step at hand back while the execution is undone; None where nothing can or need be."""

    @cached_property
    def run(self) -> Run:
        """The run as it is now: it is read together with the execution."""
        return self.execution.run

    @cached_property
    def incident(self) -> Incident:
        """The incident that the execution answers, read with it."""
        return self.execution.incident

    @cached_property
    def policy(self) -> RunPolicy:
        """The run's policy."""
        return runs.policy(self.run)

    @property
    def spec(self) -> StepSpec:
        """The step that is due, or what takes it back."""
        return self.undo or self.runbook.steps[self.execution.step_index]

    @property
    def undoing(self) -> bool:
        """Whether the execution is taken back, last step first."""
        return self.execution.state == ExecutionState.UNDOING

    @property
    def context(self) -> dict[str, Any]:
        """What earlier steps found out."""
        context: dict[str, Any] = self.execution.context
        return context

    @property
    def broken(self) -> Attempt | None:
        """The attempt that the execution was started for."""
        return Attempt.objects.filter(run_id=self.execution.run_id, number=self.execution.attempt).first()

    @property
    def launched(self) -> Attempt | None:
        """The attempt that this execution has opened."""
        number = self.context.get("new_attempt")
        return Attempt.objects.filter(run_id=self.execution.run_id, number=number).first() if number else None

    @property
    def tried(self) -> StepRun:
        """The try at hand; only asked once it has begun."""
        if self.step_run is None:
            raise LookupError(f"step {self.spec.name} has not begun")
        return self.step_run

    def in_s(self, seconds: float) -> datetime:
        """Return the moment `seconds` from now."""
        return self.now + timedelta(seconds=seconds)

    def command(self, node: str, kind: str, args: Mapping[str, Any], *, within_s: float, mark: str = "") -> Command:
        """Leave a command that exists once for this execution, step and try (and `mark`)."""
        key = self.key(mark)
        return fleet.send_command(
            node, kind, args, key=key, deadline=self.in_s(within_s), now=self.now, execution_id=self.execution.pk
        )

    def act(
        self,
        do: Do,
        why: str,
        *,
        node: str | None = None,
        args: Mapping[str, Any] | None = None,
        proposed: bool = False,
        key: str = "",
    ) -> bool:
        """Write down what is done to run or node, once for each execution and step, or for each `key`."""
        act = Act(
            do=do, why=why, run=self.run.name, node=node, args=args or {}, proposed=proposed,
            key=key or f"{self.execution.pk}:{self.spec.name}",
        )  # fmt: skip
        return records.record(act, self.now, incident=self.incident)

    def key(self, mark: str = "") -> str:
        """Return the idempotency key of this try of this step."""
        number = self.step_run.try_number if self.step_run else 1
        base = f"{self.execution.pk}:{self.spec.name}:{number}"
        return f"{base}:{mark}" if mark else base

    def commands(self) -> list[Command]:
        """Return the commands that this try has left, oldest first."""
        sent = Command.objects.filter(execution_id=self.execution.pk, idempotency_key__startswith=self.key())
        exact = [item for item in sent.select_related("node") if _of(item.idempotency_key, self.key())]
        return sorted(exact, key=lambda item: (item.created_at, item.node.name, item.idempotency_key))

    def tell(self, kind: str, sentence: str, *, key: str, data: Mapping[str, Any] | None = None) -> None:
        """Tell one sentence in the incident's chronicle, once per `key` of this execution."""
        self.book.tell(stream(self.incident), kind, sentence, key=f"execution:{self.execution.pk}:{key}", data=data)

    def tell_run(self, kind: str, sentence: str, *, key: str, data: Mapping[str, Any] | None = None) -> None:
        """Tell one short sentence in the run's chronicle as well."""
        name = f"execution:{self.execution.pk}:{key}:run"
        self.book.tell(
            f"run:{self.run.name}", kind, sentence, key=name, data={"incident": self.incident.pk, **(data or {})}
        )


def _of(key: str, base: str) -> bool:
    return key == base or key.startswith(f"{base}:")
