"""The page of an execution shows every try with its key, what agents said, and which version it keeps."""

import pytest

from controlplane.checkpoints.models import Checkpoint
from controlplane.fleet.models import Command, Node
from controlplane.runbooks import answering, engine, registry, starting, wide_undo
from controlplane.runbooks.definitions import keep
from controlplane.runbooks.models import Definition, Execution, StepRun
from tests.web.world import build, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return build()


@pytest.fixture
def page(client, world):
    client.force_login(person())

    def get():
        return client.get(f"/executions/{world.execution.pk}/").content.decode()

    return get


def _command(world, mark="", state="running", tail="", **more):
    return Command.objects.create(
        node=Node.objects.get(name="head"), kind="attempt.stop", state=state, created_at=world.now,
        deadline=world.now, idempotency_key=f"{world.execution.pk}:stop:1{mark}", execution_id=world.execution.pk,
        result={"output_tail": tail}, **more,
    )  # fmt: skip


def test_each_try_shows_the_key_of_its_effects(page, world):
    html = page()
    assert f'<span class="mono">{world.execution.pk}:collect:1</span>' in html
    assert f'<span class="mono">{world.execution.pk}:stop:1</span>' in html


def test_the_step_under_way_is_open_with_what_its_agents_say(page, world):
    _command(world, tail="SIGTERM sent\n<b>rank 3</b> still lives")
    html = page()
    assert '<details id="try-3-1" open>' in html
    assert '<details id="try-1-1">' in html
    assert "&lt;b&gt;rank 3&lt;/b&gt; still lives" in html


def test_long_output_is_cut_to_its_end_and_many_commands_are_counted(page, world):
    _command(world, tail="\n".join(f"line {number}" for number in range(500)))
    for number in range(20):
        _command(world, mark=f":n{number}")
    html = page()
    assert "line 499" in html
    assert "line 459" not in html
    assert "and 5 more commands" in html


def test_a_command_of_another_try_is_not_shown_with_this_one(page, world):
    Command.objects.filter(pk=_command(world, tail="of try 11").pk).update(
        idempotency_key=f"{world.execution.pk}:stop:11"
    )
    assert "of try 11" not in page()


def test_an_execution_of_an_older_version_shows_what_the_file_says_by_now(page, world):
    runbook = registry.runbook(world.execution.runbook)
    keep(runbook, world.now)
    old = runbook.text.replace("  - do: close\n", "").replace("version: 2", "version: 1")
    documents = {**registry.texts(runbook), runbook.source: old}
    digest = registry.thaw(documents, runbook.id).digest
    Definition.objects.create(
        digest=digest, runbook=runbook.id, version=1, text=old, documents=documents, kept_at=world.now
    )
    Execution.objects.filter(pk=world.execution.pk).update(digest=digest)
    html = page()
    assert "older than the file" in html
    assert '<li class="added"><span class="sr">added: </span><code>  - do: close</code>' in html


def _post(client, world, act):
    path = f"/executions/{world.execution.pk}/"
    client.post(f"{path}{act}/", headers={"Referer": f"http://testserver{path}"})
    world.execution.refresh_from_db()


def test_an_execution_ends_behind_the_step_under_way_when_somebody_asks(client, page, world):
    assert "Stop after this step" in page()
    _post(client, world, "stop_after")
    assert world.execution.stop_after_by == "ana"
    html = page()
    assert "Nothing: ana had it end behind this step" in html
    assert "ana asked for it" in html


def test_what_can_be_taken_back_is_listed_before_it_is(client, page, world):
    assert "Confirm: Give nodes back" in page()
    _post(client, world, "undo")
    assert (world.execution.state, world.execution.undo_by) == ("undoing", "ana")
    html = page()
    assert "Taking back what it did: " in html
    assert ("/stop/" in html, "/pause/" in html) == (True, False)


def test_who_wants_a_large_share_of_the_fleet_given_back_waits_for_a_second_person(client, page, world, monkeypatch):
    monkeypatch.setattr(wide_undo, "nodes", lambda *_: ["n-01", "n-02", "n-03"])
    monkeypatch.setattr(wide_undo, "is_wide", lambda *_: True)
    assert "so two people have to agree" in page()
    _post(client, world, "undo")
    assert world.execution.state != "undoing"
    html = page()
    assert "ana wants to take back what it did, a large share of the fleet: n-01, n-02, n-03" in html
    assert "you asked; a second person has to agree" in html
    client.force_login(person("ben", "operator"))
    assert "Agree to take it back" in page()
    _post(client, world, "undo")
    assert (world.execution.state, world.execution.undo_by) == ("undoing", "ana and ben")


def test_where_nothing_was_begun_nothing_can_be_taken_back(page, world):
    StepRun.objects.all().delete()
    assert "Take back what it did" not in page()


def test_what_a_responder_may_not_do_to_an_execution_names_the_role(client, page, world):
    client.force_login(person("rea", "responder"))
    assert page().count("needs the role operator") == 3


def test_what_a_runbook_asks_is_answered_on_the_page_by_who_may(client, page, world):
    execution = starting.start("numerical-hold", _free(world), "ana", world.now, {"hypothesis": "a <b>bad</b> batch"})
    engine.advance(execution.pk, "test", world.now)
    address = f"/executions/{execution.pk}/"
    html = client.get(address).content.decode()
    assert "is held for its numbers (a &lt;b&gt;bad&lt;/b&gt; batch)" in html
    assert 'name="answer" value="go on as it is"' in html
    client.force_login(person("rea", "responder"))
    assert "needs the role operator" in client.get(address).content.decode()
    client.force_login(person("bo"))
    client.post(f"{address}answer/", {"answer": "go on as it is", "note": "seen before"})
    assert answering.answer_to(Execution.objects.get(pk=execution.pk), "await_person").note == "seen before"
    assert 'name="answer"' not in client.get(address).content.decode()


def _free(world):
    """A run that no execution works on, with a checkpoint to pin."""
    Execution.objects.update(state="succeeded")
    Checkpoint.objects.get_or_create(run=world.run, step=5, defaults={"state": "complete", "completed_at": world.now})
    return world.run


def test_the_incident_links_what_was_tried_before(client, page, world):
    first = world.execution
    Execution.objects.filter(pk=first.pk).update(state="failed", outcome="attempt 3 did not <start>")
    Execution.objects.create(
        runbook=first.runbook, version=1, incident=first.incident, run=first.run, attempt=3, state="waiting",
        created_at=world.now, key="again",
    )  # fmt: skip
    html = client.get(f"/incidents/{first.incident_id}/").content.decode()
    assert f'<a href="/executions/{first.pk}/">Restart after a crash</a>' in html
    assert "attempt 3 did not &lt;start&gt;" in html


def test_an_execution_whose_definition_cannot_be_read_any_more_is_still_shown(client, page, world):
    Execution.objects.filter(pk=world.execution.pk).update(
        runbook="long-gone", digest="f" * 16, state="failed", outcome="no node was left"
    )
    assert "No node was left" in page()
    assert client.get(f"/incidents/{world.incident.pk}/").status_code == 200
