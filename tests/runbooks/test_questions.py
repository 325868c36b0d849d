"""How often a step that acts asks the database: on a bad night many runs wait for it at once."""

from collections.abc import Sequence
from datetime import UTC, datetime

from controlplane.incidents.models import Incident
from controlplane.runbooks import engine, registry
from controlplane.runbooks.models import Execution
from controlplane.runbooks.sdk import Action, Done, Effect, Outcome, Step, Turn, Words
from controlplane.runs.models import Attempt, Run

NOW = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
STEPS, OF_A_STEP, OF_THE_REST = 9, 11, 8
"""What each step may ask, its savepoints and commit among that; what claiming, ending and giving back may."""


class Act(Step):
    """End at once."""

    def look(self, turn: Turn) -> Outcome:
        return Done({"place": turn.execution.step_index})


WORDS = Words(next="act", doing="acting", done="Acted.", failed="No: {why}.")
ACTIONS: Sequence[tuple[Action, Step]] = [
    (Action(name="only_act", about="End at once.", effect=Effect.ACTS, limit_s=10, words=WORDS), Act())
]


def test_a_step_that_acts_asks_eleven_times_at_most(db, tmp_path, settings, monkeypatch, django_assert_max_num_queries):
    steps = "".join(f"  - do: only_act\n    name: s{number}\n" for number in range(STEPS))
    head = "runbook: acts\ncode: OPS-1\nversion: 1\ntitle: Act\nsummary: Acts.\nstart: {}\nsteps:\n"
    (tmp_path / "acts.yaml").write_text(head + steps)
    settings.RUNBOOK_FOLDERS, settings.RUNBOOK_ACTIONS = [str(tmp_path)], [__name__]
    monkeypatch.setattr(registry, "_shelf", None)
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    Attempt.objects.create(run=run, number=1, nodes=["n01"], started_at=NOW)
    incident = Incident.objects.create(run=run, klass="crash", title="It ended", began_at=NOW, opened_at=NOW)
    execution = Execution.objects.create(
        runbook="acts", version=1, incident=incident, run=run, attempt=1, approved_by="ana", created_at=NOW, key="acts"
    )
    with django_assert_max_num_queries(STEPS * OF_A_STEP + OF_THE_REST):
        engine.advance(execution.pk, "me", NOW)
    execution.refresh_from_db()
    assert (execution.state, execution.steps.filter(state="done").count()) == ("succeeded", STEPS)
