from datetime import UTC, datetime, timedelta

import pytest

from controlplane.access import actions
from controlplane.access.models import User
from controlplane.fleet.models import Node, NodeState
from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs.models import Attempt, AttemptState, Run, RunState

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


class Asking:
    """A program with a token: `api.get("runs")`, `api.post("runs/demo/hold", reason="…")`."""

    def __init__(self, client, token=None):
        self.client = client
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path, **query):
        return self.client.get(f"/api/v1/{path}", query, headers=self.headers)

    def post(self, path, **body):
        return self.client.post(f"/api/v1/{path}", body, content_type="application/json", headers=self.headers)


@pytest.fixture
def asking_as(client, db):
    def make(role):
        user = User.objects.create_user(f"the-{role}", password="right horse battery", role=role)
        return Asking(client, actions.make_api_token(user, "test", NOW))

    return make


@pytest.fixture
def api(asking_as):
    return asking_as("admin")


@pytest.fixture
def run(db):
    return Run.objects.create(name="demo", launcher="head", nodes_wanted=2, created_at=NOW, state=RunState.RUNNING)


@pytest.fixture
def attempt(run):
    return Attempt.objects.create(
        run=run, number=1, nodes=["n01", "n02"], world_size=2, started_at=NOW, state=AttemptState.RUNNING
    )


@pytest.fixture
def incident(run):
    return Incident.objects.create(
        run=run, attempt=1, klass="crash", title="Rank 1 of demo died", began_at=NOW,
        opened_at=NOW + timedelta(seconds=0.2), losses={"steps": 12, "seconds": 9.25, "confidence": "measured"},
        blamed=[{"entity": "node:n02", "score": 5.1, "margin": 3.0}],
    )  # fmt: skip


@pytest.fixture
def execution(incident, run):
    made = Execution.objects.create(
        runbook="restart-after-crash", version=1, incident=incident, run=run, attempt=1, created_at=NOW, key="k1",
        state="proposed",
    )  # fmt: skip
    StepRun.objects.create(execution=made, index=0, name="collect", state="done", started_at=NOW)
    return made


@pytest.fixture
def node(db):
    def make(name="n01", state=NodeState.HEALTHY, **more):
        return Node.objects.create(name=name, state=state, state_since=NOW, enrolled_at=NOW, **more)

    return make
