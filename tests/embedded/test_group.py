import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from controlplane.embedded import group as group_module
from controlplane.embedded.child import Program, wait_until
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.group import Group, roll

PATIENCE_S = 30.0
"""A program starts within milliseconds, unless everybody wants the processors."""


@pytest.fixture
def said():
    return []


@pytest.fixture
def group(said):
    made = Group(said.append)
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path):
    def program(name, script, **kwargs):
        return Program(name=name, argv=["/bin/sh", "-c", script], env={"PATH": "/usr/bin:/bin"},
                       cwd=tmp_path, log=tmp_path / f"{name}.log", **kwargs)  # fmt: skip

    return program


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_program_writes_to_its_log_and_reads_what_it_is_fed(group, shell, tmp_path):
    group.start(shell("echo", "cat; echo end", stdin=b"fed\n", restart=False))
    assert wait_until(lambda: (tmp_path / "echo.log").read_text() == "fed\nend\n", PATIENCE_S)


def test_a_crashed_program_is_restarted_with_growing_delays_and_it_is_told(group, shell, said, monkeypatch):
    monkeypatch.setattr(group_module, "BACK_OFF_S", (0.1, 0.2, 0.3))
    first = group.start(shell("web", "sleep 60"))
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: group.pids().get("web", first) != first, PATIENCE_S)
    os.kill(group.pids()["web"], signal.SIGKILL)
    assert wait_until(lambda: len(said) == 2, PATIENCE_S)
    assert "web ended (SIGKILL); restarting in 0 s" in said[0]
    assert group._due or group.pids()


def test_delays_grow_to_half_a_minute():
    assert group_module.BACK_OFF_S == (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


def test_a_program_that_keeps_crashing_waits_longer_each_time(group, shell, said, monkeypatch):
    monkeypatch.setattr(group_module, "BACK_OFF_S", (1.0, 2.0, 30.0))
    monkeypatch.setattr(group, "_restart_due", lambda _: None)
    for _ in range(4):
        heard = len(said)
        group.start(shell("web", "exit 3"))
        assert wait_until(lambda heard=heard: len(said) > heard, PATIENCE_S)
    assert [line.split("restarting in ")[1].split(".")[0] for line in said] == ["1 s", "2 s", "30 s", "30 s"]
    assert "exit code 3" in said[0]


def test_a_program_that_is_not_to_be_restarted_stays_down(group, shell, said):
    group.start(shell("agent", "exit 1", restart=False))
    assert wait_until(lambda: not group.pids(), PATIENCE_S)
    time.sleep(0.3)
    assert said == []
    assert not group.pids()


def test_a_name_can_run_only_once(group, shell):
    group.start(shell("web", "sleep 60"))
    with pytest.raises(CannotStart, match="web runs already"):
        group.start(shell("web", "sleep 60"))


def test_a_program_that_does_not_exist_is_named(group, tmp_path):
    nothing = Program(name="nothing", argv=["/nonexistent"], env={}, cwd=tmp_path, log=tmp_path / "log")
    with pytest.raises(CannotStart, match="nothing cannot be started"):
        group.start(nothing)


def test_programs_stop_in_reverse_order(shell, tmp_path, said):
    group = Group(said.append)
    for name in ("first", "second", "third"):
        script = f"trap 'echo {name} >> {tmp_path}/order; exit' TERM; echo up; while :; do sleep 0.05; done"
        group.start(shell(name, script))
        assert wait_until(lambda name=name: "up" in (tmp_path / f"{name}.log").read_text(), PATIENCE_S)
    group.close()
    assert (tmp_path / "order").read_text().split() == ["third", "second", "first"]
    assert said == []


def test_guests_are_asked_to_end_all_at_once(shell, tmp_path, said):
    group, names = Group(said.append), ("one", "two", "three")
    meet = "touch {0}.asked; while [ $(ls *.asked | wc -l) -lt 3 ]; do sleep 0.05; done; touch {0}.met; exit"
    for name in names:
        script = f"trap '{meet.format(name)}' TERM; echo up; while :; do sleep 0.05; done"
        group.start(shell(name, script, restart=False))
        assert wait_until((tmp_path / f"{name}.log").read_text, PATIENCE_S)
    group.close()
    assert all((tmp_path / f"{name}.met").exists() for name in names), "one had to end before the next was asked"
    assert said == []


def test_a_program_that_does_not_listen_is_killed_after_its_limit(shell, tmp_path, said):
    group = Group(said.append)
    pid = group.start(shell("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done", stop_limit_s=0.3))
    assert wait_until(lambda: "up" in (tmp_path / "deaf.log").read_text(), PATIENCE_S)
    group.close()
    assert not alive(pid)


def test_what_a_program_leaves_behind_is_ended_with_it(shell, tmp_path, said):
    group = Group(said.append)
    group.start(shell("parent", "sleep 60 & echo $!; exec sleep 60"))
    assert wait_until(lambda: (tmp_path / "parent.log").read_text().strip(), PATIENCE_S)
    left = int((tmp_path / "parent.log").read_text())
    group.close()
    assert wait_until(lambda: not alive(left), PATIENCE_S)


def test_a_stopped_program_is_not_restarted_and_can_be_started_again(group, shell, said):
    first = group.start(shell("web", "sleep 60"))
    group.stop("web")
    time.sleep(0.3)
    assert not group.pids()
    second = group.start(group.program("web"))
    assert second != first
    assert said == []


def test_nothing_can_be_started_after_the_end(shell, said):
    group = Group(said.append)
    group.close()
    with pytest.raises(CannotStart, match="stopped"):
        group.start(shell("late", "sleep 60"))


def test_killing_the_supervisor_takes_its_children(tmp_path):
    script = (
        "import time; from pathlib import Path; from controlplane.embedded.child import Program\n"
        "from controlplane.embedded.group import Group\n"
        f"here = Path({str(tmp_path)!r})\n"
        "program = Program(name='x', argv=['/bin/sleep', '60'], env={}, cwd=here, log=here / 'log')\n"
        "print(Group(print).start(program), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as supervisor:
        child = int(supervisor.stdout.readline())
        assert alive(child)
        supervisor.kill()
    assert wait_until(lambda: not alive(child), PATIENCE_S)


def test_a_child_outlives_the_thread_that_asked_for_it(group, shell):
    asking = threading.Thread(target=lambda: group.start(shell("web", "sleep 60")))
    asking.start()
    asking.join()
    time.sleep(0.2)
    assert alive(group.pids()["web"])


def test_a_log_past_its_limit_is_rolled_while_its_writer_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(group_module, "MOST_LOG_BYTES", 10)
    log = tmp_path / "web.log"
    with log.open("a") as writer:
        writer.write("older lines\n")
        writer.flush()
        roll(log)
        writer.write("newer\n")
    assert log.read_text() == "newer\n"
    assert (tmp_path / "web.log.1").read_text() == "older lines\n"
