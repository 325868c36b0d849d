"""A line that no signature knows, from the node that said it to the people who read it."""

import pytest

from controlplane.incidents.models import Incident
from controlplane.live import actions as live
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline
from controlplane.web.fragments import render_fleet, render_run
from tests.api.conftest import Asking
from tests.flows.conftest import training
from tests.web.world import person

pytestmark = pytest.mark.django_db

HOSTILE = "frobnicator 7: fatal error <script>alert(1)</script> \u202eelif"
SHOWN = "frobnicator 7: fatal error &lt;script&gt;alert(1)&lt;/script&gt; elif"


@pytest.fixture
def cluster():
    pipeline.memory.forget()
    fleet_watch.memory.forget()
    return training(steps=3, size=2, spares=1)


def say(cluster, node, text=HOSTILE):
    cluster.say(node, "node.log", source="kernel", text=text, boot_id="boot", gap=False)


def test_it_is_counted_and_shown_on_the_pages_of_run_and_fleet_and_node_and_by_rest_and_opens_nothing(cluster, client):
    say(cluster, "n01")
    cluster.tick(2)
    say(cluster, "n02")
    say(cluster, "n03", "frobnicator 8: another fatal error")
    cluster.tick(2)
    of_run = render_run("demo", ("state",), None).content
    of_fleet = render_fleet("", ("state",), None).content
    assert of_run.count(SHOWN) == of_fleet.count(SHOWN) == 1
    assert "2 times on 2 nodes" in of_run
    assert "<script>" not in of_run + of_fleet
    assert "another fatal error" in of_fleet
    assert "another fatal error" not in of_run
    client.force_login(person(role="viewer"))
    shown = {node: client.get(f"/nodes/{node}/").content.decode() for node in ("n01", "n02", "n03")}
    assert [node for node, html in shown.items() if SHOWN in html] == ["n01", "n02"]
    assert [node for node, html in shown.items() if "another fatal error" in html] == ["n03"]
    (told,) = Asking(client).get("unrecognised", run="demo").json()
    assert (told["count"], told["nodes"], told["node"]) == (2, 2, "n02")
    assert told["first_at"] < told["last_at"]
    assert len(Asking(client).get("unrecognised").json()) == 2
    assert Asking(client).get("unrecognised", run="nobody").status_code == 404
    assert not Incident.objects.exists()


def test_many_kinds_are_bounded_on_a_page_and_the_rest_is_one_link_away(cluster):
    for word in "abcdefghijkl":
        say(cluster, "n01", f"{word} failed")
    cluster.tick(2)
    html = render_run("demo", ("state",), None).content
    assert html.count('class="mono said"') == 8
    assert "And 4 more kinds" in html
    assert 'href="/api/v1/unrecognised?run=demo"' in html


def test_open_pages_hear_of_it_though_the_run_makes_no_step(cluster, monkeypatch):
    cluster.tick(2)
    touched = []
    monkeypatch.setattr(live, "touch", lambda topic, **_: touched.append(topic))
    say(cluster, "n01")
    cluster.post()
    pipeline.sweep_run(cluster.run.pk, "test", cluster.now)
    assert "run:demo" in touched
