"""A night that is replayed, recorded from what was stored, and replayed again is judged alike."""

import json
from contextlib import contextmanager

import pytest
from django.db import transaction

from controlplane.replay import inbox
from controlplane.replay.clock import BASE, at
from controlplane.replay.player import Player
from controlplane.replay.record import record
from controlplane.replay.trace import Trace
from controlplane.runs import queries as run_queries
from tests.replay.traces import beats, event, launch, steps, write

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

SAME_S = 3.0
"""Times that differ by no more count as the same (docs/replay.md)."""
END = 270
XID = "NVRM: Xid (PCI:0000:4c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def night():
    """A GPU falls off the bus, its rank dies, a person holds the run, and the next attempt runs without the node."""
    error = {"type": "RuntimeError", "message": "CUDA error", "traceback_tail": ""}
    saved = {"step": 5, "tier": "persistent", "path": "/c/5", "state": "complete", "files": 1, "expected_files": 1}
    return [
        beats("n0", "n1", "s0", "head", until=END),
        *launch(),
        steps(1, 9, t=2, every_s=10),
        event(52.5, "n0", "checkpoint", attempt=1, rank=0, **saved),
        event(94, "n1", "node.log", run=None, source="kernel", text=XID, boot_id="b", gap=False),
        event(95, "n1", "rank.exited", attempt=1, rank=1, exit_code=1, signal=None, error=error),
        event(96, "head", "attempt.exited", attempt=1, reason="failed", exit_code=1),
        *launch(t=150, attempt=2, step=5, nodes=("n0", "s0")),
        steps(6, 15, t=152, every_s=10, attempt=2),
        {"t": 200.25, "operator": {"name": "ana", "do": "note", "run": "demo", "text": "n1 goes to the vendor"}},
        {"t": 260.5, "operator": {"name": "ana", "do": "hold_run", "run": "demo"}},
    ]


def play(path):
    trace, refused = Trace(path), []
    report = Player(trace, {}, complain=refused.append).play()
    trace.close()
    assert refused == []
    return report


@contextmanager
def emptied():
    """Leave nothing behind in the database."""
    before = transaction.savepoint()
    yield
    transaction.savepoint_rollback(before)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """The report of the night, that of its recording under other names, and the recording."""
    monkeypatch.setattr(run_queries, "_lent", {})
    monkeypatch.setattr(inbox, "UNREAD", ())  # live, beats are kept in the log
    masked = tmp_path / "masked.trace.jsonl"
    with emptied():
        first = play(write(tmp_path / "night.trace.jsonl", *night(), end=END))
        record(run_queries.run_named("demo"), BASE, at(END), masked, pseudonyms=True)
    with emptied():
        return first, play(masked), masked


def verdicts(report):
    """What a night came to, times aside."""
    incidents = [(one["class"], one["run"], one["severity"], one["blamed"]) for one in report["incidents"]]
    acts = [(act["do"], act.get("node"), act.get("step"), act.get("proposed")) for act in report["actions"]]
    return incidents, sorted(acts, key=str), report["fleet"]


def times(report):
    incidents = [one[name] for one in report["incidents"] for name in ("opened_t", "confirmed_t", "resolved_t")]
    acts = sorted((act["do"], act["t"]) for act in report["actions"])
    return [moment for moment in incidents if moment is not None] + [t for _, t in acts]


def test_a_recording_gives_the_same_verdicts_blame_and_acts_under_other_names(played):
    first, again, path = played
    assert [one["class"] for one in first["incidents"]] == ["gpu_fault"]
    assert first["incidents"][0]["blamed"][0]["entity"] == "node:n1"
    assert {"quarantine", "restart"} <= {act["do"] for act in first["actions"]}
    assert times(again) == pytest.approx(times(first), abs=SAME_S)
    assert again["accounting"]["goodput"] == pytest.approx(first["accounting"]["goodput"], abs=0.01)
    names = {"n0": "node-0001", "n1": "node-0002", "s0": "node-0003", "head": "node-0000", "demo": "run-00"}
    text = json.dumps(verdicts(first))
    for name, other in names.items():
        text = text.replace(f'"{name}"', f'"{other}"').replace(f'"node:{name}"', f'"node:{other}"')
    assert json.loads(text) == json.loads(json.dumps(verdicts(again)))
    assert "person-00" in "\n".join(again["chronicle"])
    assert "ana" not in path.read_text()
    assert "person-00" in path.read_text()
