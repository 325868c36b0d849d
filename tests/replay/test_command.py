"""The command as people type it: in a database of its own, whatever the trace is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from controlplane.embedded.prepared import PREFIX
from tests.replay.traces import HEADER, beats, event, launch, steps, write

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 480

pytestmark = [pytest.mark.xdist_group("replay"), pytest.mark.timeout(LIMIT_S)]


def clean(**more):
    """The environment of a shell that knows nothing of any control plane."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, **more}


def command(*words, **more):
    return [sys.executable, "manage.py", "replay", *map(str, words)], {"cwd": ROOT, "env": clean(**more), "text": True}


def replay(*words, **more):
    argv, how = command(*words, **more)
    return subprocess.run(argv, capture_output=True, timeout=LIMIT_S, check=False, **how)


def crash(t=95):
    """A rank dies; the job ends; the next attempt goes on from the checkpoint of step 5."""
    error = {"type": "RuntimeError", "message": "boom", "traceback_tail": ""}
    saved = {"step": 5, "tier": "persistent", "path": "/c/5", "state": "complete", "files": 1, "expected_files": 1}
    return [
        beats("n0", "n1", "s0", "head", until=600),
        *launch(),
        steps(1, 9, t=2, every_s=10),
        event(52.5, "n0", "checkpoint", attempt=1, rank=0, **saved),
        event(t, "n1", "rank.exited", attempt=1, rank=1, exit_code=1, signal=None, error=error),
        event(t + 1, "head", "attempt.exited", attempt=1, reason="failed", exit_code=1),
        *launch(t=t + 60, attempt=2, step=5),
        steps(6, 30, t=t + 62, every_s=10, attempt=2),
    ]


def leftovers():
    return set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """Several traces played by one command: good ones, bad ones, and a good one again."""
    folder = tmp_path_factory.mktemp("traces")
    good = write(folder / "good.trace.jsonl", *crash(), end=400)
    unfit = event(3, "n0", "rank.step", attempt=1, rank=0, step="many")
    bad = write(folder / "bad.trace.jsonl", beats("n0", until=20), unfit)
    refusing = {"t": 0, "answers": {"do": "restart", "state": "failed"}}
    failing = write(folder / "failing.trace.jsonl", refusing, *crash(), end=400)
    held = {"t": 60, "operator": {"name": "ana", "do": "hold_node", "node": "n1"}}
    silent = {"t": 61, "operator": {"name": "ana", "do": "silence", "run": "demo", "minutes": 10}}
    told = sorted([*crash(), held, silent], key=lambda line: line["t"])
    people = write(folder / "people.trace.jsonl", *told, end=400)
    done = replay(good, bad, failing, people, good, "--json", PYTHONHASHSEED="1")
    again = replay(good, "--json", PYTHONHASHSEED="2")
    return done, [json.loads(line) for line in done.stdout.splitlines()], again


def test_a_crash_is_found_answered_and_accounted_for(stories):
    report = stories[1][0]
    assert [one["class"] for one in report["incidents"]] == ["crash"]
    restart = next(act for act in report["actions"] if act["do"] == "restart")
    assert restart["step"] == 5
    assert 95 <= restart["t"] <= 155
    assert sum(report["accounting"]["by_label_s"].values()) == report["accounting"]["elapsed_s"] == 400
    assert report["accounting"]["by_label_s"]["train_lost"] == 40
    assert report["fleet"]["n0"] == {"state": "healthy", "strikes": 0}
    assert any("Attempt 2" in sentence for sentence in report["chronicle"])


def test_a_trace_that_does_not_fit_gives_its_line_and_no_report(stories):
    done, reports, _ = stories
    assert reports[1]["trace"] == "bad"
    assert reports[1]["error"].startswith("line 3: data.step")
    assert "line 3" in done.stderr
    assert done.returncode == 1


def test_answers_of_the_trace_are_taken_for_those_of_agents(stories):
    report = stories[1][2]
    assert any("failed" in sentence.lower() for sentence in report["chronicle"])


def test_people_of_the_trace_act(stories):
    told = stories[1][3]["chronicle"]
    assert "ana put a hold on node n1." in told
    assert any("ana silenced pages about run demo" in sentence for sentence in told)


def test_the_same_trace_gives_the_same_report_whatever_was_played_before_it(stories):
    _, reports, again = stories
    assert reports[0] == reports[4]
    assert json.loads(again.stdout) == reports[0]
    assert again.returncode == 0


def test_a_comparison_under_other_settings_tells_what_differs(tmp_path):
    path = write(tmp_path / "good.trace.jsonl", *crash(), end=400)
    done = replay(path, "--against-set", "mode=observe", "--json")
    found = json.loads(done.stdout)
    assert any(pair["here"] and pair["here"]["do"] == "restart" for pair in found["actions"])


def test_an_unknown_setting_is_refused_by_its_name(tmp_path):
    path = write(tmp_path / "good.trace.jsonl", end=5)
    done = replay(path, "--set", "hang_flor_s=3")
    assert done.returncode
    assert "hang_flor_s" in done.stderr


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_replay_that_is_ended(tmp_path, ending):
    path = write(tmp_path / "long.trace.jsonl", beats(*(one["name"] for one in HEADER["nodes"]), until=9e6), end=9e6)
    before = leftovers()
    argv, how = command(path)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    try:
        deadline = time.monotonic() + LIMIT_S / 2
        while not (mine := _of(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert mine
        process.send_signal(ending)
        assert process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert not _of(process.pid)
    assert not [path for path in leftovers() - before if f"-{process.pid}-" in path.name]


def _of(pid):
    """The server's socket in the folder of a command, once it is there."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{pid}-*/run/s/.s.PGSQL*"))
