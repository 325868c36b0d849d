"""The button that asks a training for a checkpoint."""

import pytest

from controlplane.fleet.models import Command, Node
from controlplane.runs.models import Attempt, AttemptState, Run
from tests.web.world import build, person

pytestmark = pytest.mark.django_db
PATH = "/runs/steady/"


@pytest.fixture
def world(client):
    made = build()
    run = Run.objects.create(name="steady", launcher="head-01", nodes_wanted=1, created_at=made.now, state="running")
    node = Node.objects.order_by("name").first()
    Attempt.objects.create(
        run=run, number=1, nodes=[node.name], world_size=1, started_at=made.now, state=AttemptState.RUNNING,
        supports=["save_now"],
    )  # fmt: skip
    client.force_login(person())
    return made


def test_it_arms_the_switch_and_says_so(client, world):
    assert f'action="{PATH}save-now/"' in client.get(PATH).content.decode()
    page = client.post(f"{PATH}save-now/", follow=True).content.decode()
    assert Command.objects.get(kind="switch.arm").args["what"] == "save"
    assert "asked for a checkpoint now" in page
    assert "was asked for a checkpoint already" in client.post(f"{PATH}save-now/", follow=True).content.decode()


def test_where_it_cannot_be_used_it_says_why(client, world):
    Attempt.objects.filter(run__name="steady").update(supports=[])
    assert "launcher.toml does not say that the training supports save_now" in client.get(PATH).content.decode()
    Attempt.objects.filter(run__name="steady").update(supports=["save_now"])
    client.force_login(person("vera", "viewer"))
    assert "needs the role responder" in client.get(PATH).content.decode()
