import json
import os
import signal
import subprocess
import sys
import time

import pytest
from middlewatch_agent.loop import Loop
from middlewatch_agent.ranks import procfs
from middlewatch_agent.ranks.inotify import FolderWatch
from middlewatch_agent.ranks.watch import RanksWatch

from tests.patience import within

NOW_MS = time.time_ns() // 1_000_000
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


class Ward:
    """A rank watch with its loop and everything it told."""

    def __init__(self, folder, told=None):
        self.folder = folder
        self.told = told if told is not None else {}
        self.loop = Loop()
        self.watch = RanksWatch(
            folder, self.loop, node="n01", emit_once=self.emit_once, forget=lambda key: self.told.pop(key, None)
        )
        self.watch.start()

    def emit_once(self, key, events):
        fresh = key not in self.told
        self.told.setdefault(key, list(events))
        return fresh

    def events(self, kind=None):
        return [event for events in self.told.values() for event in events if kind in (None, event["kind"])]

    def until(self, kind, count=1, seconds=5.0):
        deadline = time.monotonic() + seconds
        while len(self.events(kind)) < count:
            assert time.monotonic() < deadline, self.told
            self.loop.turn(0.05)
        return self.events(kind)

    def idle(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.loop.turn(0.02)

    def close(self):
        self.watch.close()
        self.loop.close()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ranks"
    path.mkdir()
    return path


@pytest.fixture
def ward(folder):
    made = Ward(folder)
    yield made
    made.close()


@pytest.fixture
def sleeper():
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def status(pid, **more):
    process = procfs.look(pid)
    ticks = process.start_ticks if process else 1
    base = {
        "run": "demo",
        "attempt": 2,
        "rank": 3,
        "local_rank": 0,
        "pid": pid,
        "start_ticks": ticks,
        "started_at_ms": NOW_MS,
    }
    return base | more


def write(folder, content, name="demo.2.3.json"):
    scratch = folder / f".{name}.tmp"
    scratch.write_text(content if isinstance(content, str) else json.dumps(content))
    scratch.replace(folder / name)


def test_a_rank_that_starts_is_told(ward, folder, sleeper):
    write(folder, status(sleeper.pid))
    event = ward.until("rank.started")[0]
    assert (event["run"], event["attempt"], event["rank"], event["at_ms"]) == ("demo", 2, 3, NOW_MS)
    assert event["data"] == {"node": "n01", "local_rank": 0, "pid": sleeper.pid}


def test_a_rank_that_ends_is_told_with_its_code_and_the_end_of_its_log(ward, folder, sleeper, tmp_path):
    (tmp_path / "rank.log").write_text("RuntimeError: boom\n")
    write(folder, status(sleeper.pid, log=str(tmp_path / "rank.log")))
    ward.until("rank.started")
    error = {"type": "RuntimeError", "message": "boom", "traceback_tail": "…"}
    end = {"exit_code": 1, "signal": None, "exited_at_ms": NOW_MS + 1, "error": error}
    write(folder, status(sleeper.pid, log=str(tmp_path / "rank.log"), **end))
    event = ward.until("rank.exited")[0]
    assert event["at_ms"] == NOW_MS + 1
    assert (event["data"]["exit_code"], event["data"]["signal"], event["data"]["error"]) == (1, None, error)
    assert ward.events("rank.log")[0]["data"] == {"stream": "tail", "text": "RuntimeError: boom\n"}


def test_an_end_is_noticed_within_fifty_milliseconds(ward, folder, sleeper):
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    began = time.monotonic()
    write(folder, status(sleeper.pid, exit_code=None, signal=9, exited_at_ms=NOW_MS))
    ward.until("rank.exited")
    assert time.monotonic() - began < within(0.05)


def test_a_rank_whose_shim_was_killed_ended_with_nobody_looking(ward, folder, sleeper):
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    sleeper.kill()
    sleeper.wait()
    event = ward.until("rank.exited")[0]
    assert (event["data"]["exit_code"], event["data"]["signal"]) == (None, None)


def test_the_word_of_the_shim_is_waited_for_when_the_process_ends_first(ward, folder, sleeper):
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    sleeper.kill()
    sleeper.wait()
    ward.idle(0.1)
    write(folder, status(sleeper.pid, signal=9, exited_at_ms=NOW_MS))
    assert ward.until("rank.exited")[0]["data"]["signal"] == 9
    ward.idle(0.5)
    assert len(ward.events("rank.exited")) == 1


def test_a_restarted_agent_tells_nothing_twice(folder, sleeper):
    write(folder, status(sleeper.pid))
    first = Ward(folder)
    first.until("rank.started")
    first.close()
    write(folder, status(sleeper.pid, exit_code=0, exited_at_ms=NOW_MS))
    second = Ward(folder, told=first.told)
    second.until("rank.exited")
    second.close()
    third = Ward(folder, told=second.told)
    third.idle(0.1)
    assert [event["kind"] for event in third.events()] == ["rank.started", "rank.exited"]
    third.close()


def test_an_end_that_happened_while_no_agent_lived_is_told_by_the_next(folder):
    write(folder, status(2**22 - 3, exit_code=None, signal=11, exited_at_ms=NOW_MS))
    later = Ward(folder)
    assert [event["kind"] for event in later.events()] == ["rank.started", "rank.exited"]
    assert later.events("rank.exited")[0]["data"]["signal"] == 11
    later.close()


def test_a_rank_that_vanished_with_its_shim_while_no_agent_lived_has_ended(folder):
    write(folder, status(2**22 - 3))
    later = Ward(folder)
    assert later.until("rank.exited")[0]["data"]["exit_code"] is None
    later.close()


def test_a_pid_that_now_belongs_to_another_process_is_not_the_rank(folder, sleeper):
    write(folder, status(sleeper.pid) | {"start_ticks": 1})
    later = Ward(folder)
    later.until("rank.exited")
    later.close()


def test_a_stopped_rank_has_not_ended(ward, folder, sleeper):
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    os.kill(sleeper.pid, signal.SIGSTOP)
    ward.idle(0.3)
    assert ward.events("rank.exited") == []
    (told,) = ward.watch.processes()
    assert (told["run"], told["rank"], told["pid"], told["state"]) == ("demo", 3, sleeper.pid, "T")
    assert told["rss_bytes"] > 0


@pytest.mark.parametrize(
    "bad",
    ["", "{", "[]", "{}", '{"run": 5}', "x" * 70_000, json.dumps({"run": "r" * 200, "attempt": 1, "rank": 0, "pid": 1}),
     json.dumps({"run": "r", "attempt": 1, "rank": 0, "pid": -1})],
)  # fmt: skip
def test_an_unusable_status_file_harms_nobody(ward, folder, sleeper, bad):
    write(folder, bad, "bad.json")
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    assert len(ward.told) == 1


def test_a_status_file_that_is_a_link_is_not_followed(ward, folder, tmp_path, sleeper):
    (tmp_path / "elsewhere.json").write_text(json.dumps(status(sleeper.pid)))
    (folder / "demo.2.3.json").symlink_to(tmp_path / "elsewhere.json")
    ward.watch.scan()
    assert ward.told == {}


def test_old_ends_are_cleared_away(folder):
    write(folder, status(2**22 - 3, exit_code=0, exited_at_ms=1000))
    later = Ward(folder)
    later.watch.scan()
    assert not (folder / "demo.2.3.json").exists()
    assert later.told == {}
    later.close()


def test_changes_are_noticed_where_inotify_has_no_room(folder, sleeper, monkeypatch):
    def refuse(_folder):
        raise OSError(28, "no room")

    monkeypatch.setattr("middlewatch_agent.ranks.watch.FolderWatch", refuse)
    ward = Ward(folder)
    write(folder, status(sleeper.pid))
    ward.until("rank.started")
    ward.close()


def test_a_real_shim_is_understood(ward, folder, tmp_path):
    environ = {**os.environ, "MIDDLEWATCH_RUN": "demo", "MIDDLEWATCH_ATTEMPT": "4", "RANK": "1", "LOCAL_RANK": "1"}
    path = folder / "demo.4.1.json"
    shim = [sys.executable, "-m", "middlewatch_agent.shim", "--status", str(path), "--log", str(tmp_path / "log")]
    with subprocess.Popen([*shim, "--", *SLEEP], env=environ) as process:
        ward.until("rank.started")
        os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
        event = ward.until("rank.exited")[0]
        assert (event["rank"], event["data"]["signal"]) == (1, 9)
        process.wait(5)


def test_a_killed_shim_takes_its_rank_along_and_both_ends_are_one(ward, folder, tmp_path):
    environ = {**os.environ, "MIDDLEWATCH_RUN": "demo", "MIDDLEWATCH_ATTEMPT": "4", "RANK": "1", "LOCAL_RANK": "1"}
    path = folder / "demo.4.1.json"
    shim = [sys.executable, "-m", "middlewatch_agent.shim", "--status", str(path), "--log", str(tmp_path / "log")]
    with subprocess.Popen([*shim, "--", *SLEEP], env=environ) as process:
        ward.until("rank.started")
        process.kill()
        process.wait(5)
        event = ward.until("rank.exited")[0]
        assert (event["data"]["exit_code"], event["data"]["signal"]) == (None, None)


def test_a_folder_watch_names_what_changed(tmp_path):
    watch = FolderWatch(tmp_path)
    assert watch.names() == set()
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").rename(tmp_path / "b.json")
    assert "b.json" in watch.names()
    watch.close()
