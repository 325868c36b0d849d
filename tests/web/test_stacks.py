"""Who stood where, on the page of an incident and by REST."""

import pytest

from controlplane.domain.diagnosis.stacks import Standing, group
from controlplane.incidents import stacks
from tests.web.world import build, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(client):
    made = build()
    client.force_login(person())
    return made


def picture(incident, now):
    waits = Standing(rank=0, frames=("all_reduce (torch/distributed/c10d.py:9)", "f (job/train.py:1)"), answered=True)
    hostile = Standing(rank=3, frames=("<script>alert(1)</script> (job/a.py:1)",), answered=True)
    stacks.keep(incident, 2, group([waits, hostile, Standing(rank=4, proc_state="T")]), now)


def test_the_page_shows_the_few_first_with_their_frames_folded_and_escaped(client, world):
    path = f"/incidents/{world.incident.pk}/"
    assert "Who stood where" not in client.get(path).content.decode()
    picture(world.incident, world.now)
    html = client.get(path).content.decode()
    assert html.index("Rank 4") < html.index("Rank 0")
    assert "waits in all_reduce (train.py:1)" in html
    assert "did not answer (stopped)" in html
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (job/a.py:1)" in html


def test_the_groups_are_read_by_rest(client, world):
    picture(world.incident, world.now)
    told = client.get(f"/api/v1/incidents/{world.incident.pk}").json()["stacks"]
    assert [(one["ranks"], one["count"], one["answered"]) for one in told] == [
        ([4], 1, False), ([0], 1, True), ([3], 1, True),
    ]  # fmt: skip
