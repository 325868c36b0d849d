import json
import os
import signal
import subprocess
import sys
import time

import pytest
from middlewatch_agent import shim
from middlewatch_agent.launcher import processes, spawn
from middlewatch_agent.ranks import procfs

from tests.agent.launcher.stage import wait_for
from tests.patience import within


@pytest.fixture
def rank(tmp_path):
    started = []

    def start(program: str, *, shell: bool = True, **environ: str) -> subprocess.Popen[bytes]:
        command = ["sh", "-c", program] if shell else [program]
        process = subprocess.Popen(
            [sys.executable, "-m", "middlewatch_agent.shim", "--status", str(tmp_path / "r.json"),
             "--log", str(tmp_path / "r.log"), "--", *command],
            env={**os.environ, "MIDDLEWATCH_RUN": "demo", "MIDDLEWATCH_ATTEMPT": "3", "RANK": "2", **environ},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def status(tmp_path):
    def read() -> dict:
        path = tmp_path / "r.json"
        return json.loads(path.read_text()) if path.exists() else {}

    return read


def test_the_exit_code_of_a_rank_is_written_down(rank, status, tmp_path):
    rank("echo hello; exit 4").wait(10)
    found = status()
    assert (found["run"], found["attempt"], found["rank"]) == ("demo", 3, 2)
    assert (found["exit_code"], found["signal"]) == (4, None)
    assert found["exited_at_ms"] >= found["started_at_ms"]
    assert (tmp_path / "r.log").read_text() == "hello\n"


def test_the_signal_that_ended_a_rank_is_written_down(rank, status):
    rank("kill -9 $$").wait(10)
    assert (status()["exit_code"], status()["signal"]) == (None, signal.SIGKILL)


def test_while_the_rank_lives_the_file_names_its_process_for_ever(rank, status):
    rank("sleep 60")
    found = wait_for(status)
    assert shim.start_ticks(found["pid"]) == found["start_ticks"]
    assert "exit_code" not in found


def test_a_rank_dies_with_its_shim(rank, status):
    process = rank("sleep 60")
    pid = wait_for(status)["pid"]
    process.kill()
    wait_for(lambda: shim.start_ticks(pid) is None)


def test_what_a_rank_leaves_behind_in_its_group_is_ended(rank, status, tmp_path):
    rank(f"sleep 61 & echo $! > {tmp_path}/helper").wait(10)
    helper = int((tmp_path / "helper").read_text())
    wait_for(lambda: _gone(helper))
    assert status()["exit_code"] == 0


def test_sigterm_to_the_shim_reaches_the_rank(rank, status):
    process = rank("exec sleep 60")
    wait_for(status)
    process.terminate()
    process.wait(10)
    assert status()["signal"] == signal.SIGTERM


def test_a_rank_is_never_started_twice(rank, status):
    rank("exit 5").wait(10)
    assert rank("exit 6").wait(10) == shim.ALREADY_STARTED
    assert status()["exit_code"] == 5


def test_a_program_that_is_not_there_is_told_in_the_log(rank, status, tmp_path):
    rank("/no/such/program", shell=False).wait(10)
    assert status()["exit_code"] == shim.NOT_EXECUTED
    assert "/no/such/program" in (tmp_path / "r.log").read_text()


def test_the_exception_that_torchelastic_recorded_is_taken_over(rank, status, tmp_path):
    error = {"message": {"message": "RuntimeError: injected ECC error", "extraInfo": {"py_callstack": "a\nb"}}}
    (tmp_path / "error").write_text(json.dumps(error))
    rank("exit 1", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error")).wait(10)
    assert status()["error"] == {"type": "RuntimeError", "message": "injected ECC error", "traceback_tail": "a\nb"}


@pytest.mark.parametrize("text", ["", "[]", '{"message": 3}', '{"message": {}}', '{"message":' + "[" * 100_000, '"x"'])
def test_a_broken_error_file_is_no_error(tmp_path, text):
    (tmp_path / "error").write_text(text)
    assert shim.read_error(str(tmp_path / "error")) is None


def test_a_huge_error_file_is_cut(tmp_path):
    (tmp_path / "error").write_text(json.dumps({"message": {"message": "E: " + "x" * 900_000}}))
    assert len(shim.read_error(str(tmp_path / "error"))["message"]) == shim.MAX_MESSAGE_CHARS
    (tmp_path / "error").write_text(json.dumps({"message": "E: " + "x" * shim.MAX_ERROR_FILE_BYTES}))
    assert shim.read_error(str(tmp_path / "error")) is None


def test_a_shim_is_small_and_quick(tmp_path):
    took = []
    for number in range(5):
        began = time.perf_counter()
        status = str(tmp_path / f"{number}.json")
        asked = spawn.Order(command=["true"], environ={}, folder=".", status=status, log=str(tmp_path / "log"))
        subprocess.run(spawn.shim_command(asked), check=True)
        took.append(time.perf_counter() - began)
    look = "import middlewatch_agent.shim, sys; print({'msgspec', 'psutil', 'subprocess'} & set(sys.modules))"
    heavy = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True)
    assert heavy.stdout.strip() == b"set()"
    assert min(took) < within(0.4)


def _gone(pid: int) -> bool:
    found = procfs.look(pid)
    return found is None or found.state in processes.GONE
