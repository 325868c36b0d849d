"""Checkpoints of a real training of two ranks on gloo; what the ranks did is in `job.py`."""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from middlewatch_agent.dcp import verdict
from middlewatch_wire.kinds import KINDS

REPOSITORY = Path(__file__).parents[3]


class Played:
    """What the scenes left: files, and what the agent heard of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[dict] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "agent.sock"))

    def listen(self) -> None:
        while raw := self._socket.recv(1 << 16):
            self.events.append(json.loads(raw))

    def play(self) -> None:
        listener = threading.Thread(target=self.listen)
        listener.start()
        done = subprocess.run(
            [sys.executable, "-m", "tests.agent.hooks.job", str(self.folder)],
            cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"", str(self.folder / "agent.sock"))
        listener.join(10)
        assert done.returncode == 0, done.stderr
        self.stderr = done.stderr

    def told(self, scene: str, rank: int = 0) -> dict:
        path = self.folder / f"{scene}.{rank}.json"
        assert path.exists(), self.stderr
        return json.loads(path.read_text())

    def heard(self, scene: str, kind: str, rank: int = 0) -> list[dict]:
        return [e["data"] for e in self.events if (e["run"], e["kind"], e["rank"]) == (scene, kind, rank)]


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hooks-job")]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    made = Played(tmp_path_factory.mktemp("job"))
    made.play()
    return made


def states(events: list[dict]) -> list[tuple[int, str]]:
    return [(event["step"], event["state"]) for event in events]


def test_a_save_is_complete_when_its_future_is_done_and_says_what_it_cost(played):
    events = played.heard("first", "checkpoint")
    assert states(events) == [(1, "saving"), (1, "complete"), (2, "saving"), (2, "complete")]
    complete = events[1]
    assert complete["files"] == complete["expected_files"] == 3
    assert complete["bytes"] > 1000
    assert 0 < complete["blocking_ms"] < complete["duration_ms"]
    assert (complete["tier"], complete["format"]) == ("persistent", "dcp")
    assert complete["path"] == str(played.folder / "ck/step-1")


def test_all_that_was_said_is_of_the_wire(played):
    for event in played.events:
        msgspec.convert(event["data"], KINDS[event["kind"]])
        if event["kind"] != "rank.window":  # it tells what the hooks dropped too
            assert set(event["data"]) <= {*KINDS[event["kind"]].__struct_fields__, "why"}


def test_one_rank_speaks_for_all_about_checkpoints(played):
    assert played.heard("first", "checkpoint", rank=1) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_resumed_training_goes_on_exactly_where_the_checkpoint_was_made(played, rank):
    before, after = played.told("first", rank), played.told("resumed", rank)
    assert (before["begun_at"], after["begun_at"]) == (0, 1)
    assert after["losses"] == pytest.approx(before["losses"], rel=1e-6)


def test_every_rank_tells_once_what_it_resumed_with(played):
    for rank in (0, 1):
        (told,) = played.heard("resumed", "rank.resume", rank)
        assert len(told.pop("rng_digest")) == 16
        assert told == {
            "step": 1, "world_size": 2, "parameters": 8 * 16 + 16 + 16 + 1,
            "lr": 0.05, "betas": [0.8, 0.9], "optimizer_step": 1,
        }  # fmt: skip
    assert (1, "restored") in states(played.heard("resumed", "checkpoint"))


def test_a_start_from_the_beginning_tells_step_0(played):
    assert played.heard("first", "rank.resume")[0]["step"] == 0


def test_loading_and_saving_are_phases(played):
    phases = [(event["phase"], event["state"]) for event in played.heard("first", "rank.phase")]
    assert phases == [("restore", "begin"), ("restore", "end"), ("save", "begin"), ("save", "end")]


def test_the_wait_for_gradients_is_measured_on_every_rank(played):
    for rank in (0, 1):
        windows = played.heard("first", "rank.window", rank)
        assert len(windows) == 4
        assert all(window["wait_ms"] > 0 for window in windows)


def test_a_save_whose_writer_died_is_reported_as_failed_and_lies_there_torn(played):
    assert played.told("torn")["error"] != "NoneType"
    events = played.heard("torn", "checkpoint")
    assert (3, "failed") in states(events)
    assert (3, "complete") not in states(events)


def test_old_checkpoints_are_deleted_and_told_so(played):
    left = [one for one in verdict.steps(played.folder / "ck") if one >= 10]
    assert left == [15, 14, 13]
    deleted = [step for step, state in states(played.heard("kept", "checkpoint")) if state == "deleted"]
    assert sorted(deleted)[-3:] == [10, 11, 12]


def test_both_ranks_take_a_switch_after_the_same_step(played):
    first, second = played.told("asked", 0), played.told("asked", 1)
    assert first == second
    assert 5 <= first["saved"] < first["stopped"]
