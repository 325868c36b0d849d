"""A replay that was asked for from an incident: queued, carried out beside the worker, bounded, and never stuck."""

import json
import subprocess
import sys
from datetime import timedelta

import psutil
import pytest
from django.utils import timezone

from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.embedded.child import wait_until
from controlplane.incidents.models import Incident
from controlplane.replay import process, rerun, tasks
from controlplane.replay.models import Rerun, RerunState
from controlplane.watch import wake
from controlplane.web.read import rerun as read
from tests.replay.nights import BEGAN, a_crash, log_it

pytestmark = pytest.mark.django_db
NOW = BEGAN + timedelta(hours=2)
PATIENCE_S = 20.0

TELLS = """
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(json.dumps({"incidents": [], "actions": [], "chronicle": ["long"], "argv": sys.argv[2:],
                  "env": sorted(os.environ), "first": lines[0], "last": lines[-1], "nice": os.nice(0)}))
"""
COMPLAINS = "import sys; sys.stderr.write('Warming up.\\n' + {0!r}.format(sys.argv[1]) + '\\n'); sys.exit(1)"
SLEEPS = """
import os, pathlib, time
pathlib.Path({0!r}).write_text(str(os.getpid()))
time.sleep(60)
"""
WORKS = """
import pathlib, sys
from controlplane.replay import process
process.COMMAND = (sys.executable, "-c", {0!r})
process.play(pathlib.Path("x"), [])
"""
HANGS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({0!r}).write_text(str(child.pid))
time.sleep(60)
"""


@pytest.fixture
def incident():
    return a_crash()


@pytest.fixture
def logged(incident):
    """How many events of that night the log holds."""
    return log_it()


@pytest.fixture
def stub(monkeypatch):
    """Let a small program stand in for the replay command."""

    def stand_in(code):
        monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", code))

    return stand_in


@pytest.fixture
def begun(monkeypatch):
    """The reruns that a worker was asked to begin."""
    asked = []
    monkeypatch.setattr(tasks.rerun, "apply_async", lambda arguments, **_: asked.append(arguments[0]))
    return asked


def asked(incident, /, **overrides):
    return rerun.ask(incident, overrides, "ana", NOW)


def carried_out(row):
    tasks.rerun(row.pk)
    row.refresh_from_db()
    return row


def test_asking_queues_one_tells_who_asked_and_wakes_a_worker(
    incident, monkeypatch, django_capture_on_commit_callbacks
):
    woken = []
    monkeypatch.setattr(wake, "rerun", woken.append)
    with django_capture_on_commit_callbacks(execute=True):
        row = asked(incident, silence_s=60.0)
    assert (row.state, row.asked_by, woken) == (RerunState.QUEUED, "ana", [row.pk])
    told = Entry.objects.get(stream__name=f"incident:{incident.pk}")
    assert told.sentence == "ana asked what today's rules would have done with silence_s=60.0."


def test_it_begins_half_an_hour_before_and_ends_ten_minutes_after(incident):
    incident.run.created_at = BEGAN - timedelta(days=1)
    row = asked(incident)
    assert (row.since, row.until) == (BEGAN - timedelta(minutes=30), incident.resolved_at + timedelta(minutes=10))


def test_it_does_not_begin_before_the_run(incident):
    assert asked(incident).since == incident.run.created_at


def test_an_incident_that_lasts_for_days_is_replayed_for_its_first_day(incident):
    incident.resolved_at = None
    since, until = rerun.window(incident, BEGAN + timedelta(days=3))
    assert until - since == timedelta(days=1)


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"hang_kk": 3}, "hang_kk"),
        ({"hang_k": 900}, "hang_k"),
        ({"delta_s": 60, "hang_floor_s": 30}, "delta_s"),
        ({"mode": "sleep"}, "mode"),
        ({"mode": ["ask"]}, "mode"),
        ({"modes": {"D-04": "maybe"}}, "modes.D-04"),
        ({"modes": {"D-04\0": "off"}}, "modes"),
    ],
)
def test_a_setting_that_does_not_fit_is_named_and_nothing_is_queued(incident, overrides, field):
    with pytest.raises(Invalid) as error:
        asked(incident, **overrides)
    assert error.value.field == field
    assert not Rerun.objects.exists()


def test_settings_must_fit_those_that_the_run_has(incident):
    incident.run.policy = {"hang_floor_s": 30}
    with pytest.raises(Invalid, match="delta_s: must be below hang_floor_s"):
        asked(incident, delta_s=60)


def test_a_second_one_of_the_same_incident_waits_for_the_first(incident):
    asked(incident)
    with pytest.raises(Conflict):
        asked(incident)
    assert Rerun.objects.count() == 1


def test_an_incident_of_the_fleet_or_of_long_ago_cannot_be_replayed(incident, settings):
    of_fleet = Incident.objects.create(klass="blind", title="x", began_at=BEGAN, opened_at=BEGAN)
    with pytest.raises(Refused, match="about the fleet"):
        asked(of_fleet)
    settings.EVENT_RETENTION_DAYS = 7
    incident.began_at = NOW - timedelta(days=7)
    with pytest.raises(Refused, match="kept for 7 days"):
        asked(incident)


def test_only_so_many_wait(incident, monkeypatch):
    monkeypatch.setattr(rerun, "MAX_WAITING", 1)
    asked(incident)
    other = Incident.objects.create(run=incident.run, klass="hang", title="x", began_at=BEGAN, opened_at=BEGAN)
    with pytest.raises(Refused, match="wait already"):
        asked(other)


def test_the_ten_newest_are_kept(incident):
    made = [asked(incident) for _ in range(12) if not Rerun.objects.update(state=RerunState.DONE) or True]
    assert sorted(Rerun.objects.values_list("pk", flat=True)) == [row.pk for row in made[2:]]


def test_the_command_gets_the_recording_and_the_settings_and_knows_no_live_server(incident, logged, stub):
    stub(TELLS)
    row = carried_out(asked(incident, silence_s=60, modes={"D-04": "off"}, mode="ask", declared_step_s=None))
    assert row.state == RerunState.DONE, row.why
    told = row.report
    assert sorted(told["argv"]) == [
        "--json", "--set=declared_step_s=none", "--set=mode=ask", "--set=modes.D-04=off", "--set=silence_s=60"
    ]  # fmt: skip
    assert not {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "MIDDLEWATCH_SECRET_KEY"} & set(told["env"])
    assert told["first"]["runs"][0]["name"] == "demo"
    assert told["last"] == {"t": 820.0, "end": True}
    assert told["nice"] >= process.NICE
    assert "chronicle" not in told
    assert row.events == logged


@pytest.mark.parametrize(
    ("complaint", "why"),
    [
        ("{0}: line 7: t goes back", "line 7: t goes back"),
        ("PostgreSQL 15 or newer was not found. Install something.", process.NO_SERVER),
    ],
)
def test_a_replay_that_fails_says_why(incident, logged, stub, complaint, why):
    stub(COMPLAINS.replace("{0!r}", repr(complaint)))
    row = carried_out(asked(incident))
    assert (row.state, row.why, row.report) == (RerunState.FAILED, why, None)


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('hello')", "the replay told no report"),
        ("print('[1]')", "the replay told no report"),
        ("print('x' * 100)", "the report is larger than 0 MiB"),
        ("import os; os._exit(3)", "the replay ended without a word"),
    ],
)
def test_what_is_no_report_is_not_kept(incident, stub, monkeypatch, code, why):
    monkeypatch.setattr(process, "MAX_REPORT_BYTES", 50)
    stub(code)
    assert carried_out(asked(incident)).why == why


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(incident, logged, stub, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "LIMIT_S", 1.0)
    monkeypatch.setattr(process, "GRACE_S", 0.1)
    stub(HANGS.replace("{0!r}", repr(str(tmp_path / "pid"))))
    assert carried_out(asked(incident)).why == "the replay took longer than 1 s"
    assert _ended(int((tmp_path / "pid").read_text()))


def test_a_recording_that_is_too_large_is_not_played(incident, logged, stub, monkeypatch):
    monkeypatch.setattr(rerun, "MAX_EVENTS", 5)
    stub("raise SystemExit('must not run')")
    assert carried_out(asked(incident)).why == "more than 5 events were recorded in that time"


def test_a_mistake_of_ours_leaves_no_row_running(incident, logged, monkeypatch, caplog):
    monkeypatch.setattr(process, "play", lambda *_: 1 / 0)
    assert "log says what" in carried_out(asked(incident)).why


def test_a_rerun_begins_once_and_one_at_a_time(incident, begun):
    first = asked(incident)
    other = Incident.objects.create(run=incident.run, klass="hang", title="x", began_at=BEGAN, opened_at=BEGAN)
    second = asked(other)
    assert rerun.claim(first.pk, NOW) is not None
    assert rerun.claim(first.pk, NOW) is None
    assert rerun.claim(second.pk, NOW) is None
    assert rerun.next_waiting() is None
    rerun.finish(first, rerun.Outcome(report={}), NOW)
    tasks.tend()
    assert begun == [second.pk]


def test_the_next_one_begins_when_one_ends(incident, logged, stub, begun):
    stub(TELLS)
    first = asked(incident)
    other = Incident.objects.create(run=incident.run, klass="hang", title="x", began_at=BEGAN, opened_at=BEGAN)
    second = asked(other)
    carried_out(first)
    assert begun == [second.pk]


def test_one_whose_worker_was_killed_is_given_up_and_a_late_end_changes_nothing(incident, begun):
    row = rerun.claim(asked(incident).pk, timezone.now() - timedelta(minutes=16))
    tasks.tend()
    rerun.finish(row, rerun.Outcome(report={"incidents": []}), NOW)
    row.refresh_from_db()
    assert (row.state, row.report) == (RerunState.FAILED, None)
    assert "ask again" in row.why


def test_the_command_ends_when_its_worker_is_killed(tmp_path):
    told = tmp_path / "pid"
    code = WORKS.replace("{0!r}", repr(SLEEPS.replace("{0!r}", repr(str(told)))))
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=process.ROOT)
    assert wait_until(lambda: told.exists() and told.read_text() != "", PATIENCE_S)
    worker.kill()
    worker.wait()
    assert wait_until(lambda: _ended(int(told.read_text())), PATIENCE_S)


def _ended(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
@pytest.mark.xdist_group("replay")
def test_a_recorded_crash_is_found_again_by_the_real_command(incident, logged, monkeypatch):
    monkeypatch.setattr(process, "NICE", 0)  # a busy machine would starve it beside the other tests
    monkeypatch.setattr(rerun, "AFTER", timedelta(seconds=10))
    row = carried_out(asked(incident))
    assert row.state == RerunState.DONE, row.why
    shown = read.comparison(incident, row)
    assert shown["found"], json.dumps(row.report)[:2000]
    assert "earlier" in shown["sentence"]
