"""An operator's own runbook with an own action, added without touching ours."""

import sys
import textwrap

import pytest
from django.core.management import CommandError, call_command

from controlplane.runbooks import registry, starting
from tests.flows.conftest import training

MODULE = """
from controlplane.runbooks.sdk import Action, Done, Effect, Failed, Kind, Outcome, Param, Step, Turn, Words


class Greet(Step):
    def look(self, turn: Turn) -> Outcome:
        who = turn.context["who"]
        if who == "nobody":
            return Failed("there is nobody to greet", retry=False)
        return Done({"greeting": f"{turn.spec.args['word']}, {who}"})


ACTIONS = [
    (
        Action(
            name="greet",
            about="Say hello.",
            effect=Effect.ACTS,
            limit_s=10,
            needs=frozenset({"who"}),
            gives=frozenset({"greeting"}),
            params={"word": Param(kind=Kind.TEXT, about="how", default="Hello")},
            words=Words(next="greet {who}", doing="greeting", done="Greeted: {greeting}.", failed="No: {why}."),
        ),
        Greet(),
    ),
]
"""
FILE = """
runbook: greet
code: OPS-1
version: 1
title: Greet somebody
summary: Says hello and tells the run's chronicle.
start:
  who: {about: whom}
steps:
  - do: greet
    with: {word: Good morning}
  - do: announce
    with: {text: "{greeting}"}
"""


@pytest.fixture
def own(tmp_path, settings, monkeypatch):
    (tmp_path / "greeting_actions.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "greet.yaml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.RUNBOOK_FOLDERS, settings.RUNBOOK_ACTIONS = [str(tmp_path)], ["greeting_actions"]
    monkeypatch.setattr(registry, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(registry, "_shelf", None)
    yield tmp_path
    sys.modules.pop("greeting_actions", None)


def test_an_own_runbook_with_an_own_action_runs_to_its_end(db, own):
    cluster = training(steps=6, size=2, spares=0)
    execution = starting.start("greet", cluster.run, "ana", cluster.now, {"who": "Ben"})
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=5)
    assert any("Good morning, Ben." in line for line in cluster.told("run:demo"))
    assert any("Greeted: Good morning, Ben." in line for line in cluster.told(f"incident:{execution.incident_id}"))


def test_the_command_checks_lists_shows_and_compares_own_runbooks(db, own, capsys):
    call_command("runbooks", "check")
    call_command("runbooks", "list")
    call_command("runbooks", "show", "greet")
    call_command("runbooks", "diff", "greet")
    told = capsys.readouterr().out
    assert "all sound" in told
    assert "OPS-1  greet" in told
    assert " 1. greet" in told
    assert "no other version of greet was ever used" in told
    (own / "greet.yaml").write_text(FILE.replace("do: greet", "do: great"))
    with pytest.raises(CommandError, match="1 mistakes"):
        call_command("runbooks", "check")
    assert f"{own / 'greet.yaml'}:10: steps[0].do: no action is called that" in capsys.readouterr().err


def test_an_execution_goes_on_with_the_definition_that_it_began_with(db, own):
    cluster = training(steps=6, size=2, spares=0)
    execution = starting.start("greet", cluster.run, "ana", cluster.now, {"who": "Ben"})
    (own / "greet.yaml").write_text(FILE.replace("Good morning", "Good evening").replace("version: 1", "version: 2"))
    assert registry.runbook("greet").version == 2
    assert registry.of(execution).steps[0].args == {"word": "Good morning"}
    (own / "greet.yaml").unlink()
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=5)
    assert any("Good morning, Ben." in line for line in cluster.told("run:demo"))
