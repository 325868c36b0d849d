"""The whole agent as a real process, against a control plane in miniature."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from middlewatch_wire import decode_batch

from tests.agent.process import AgentProcess, step
from tests.patience import within

JOB = "import time; name = '{}'; time.sleep(20)"


def steps(plane):
    return sorted(event["data"]["step"] for event in plane.of_kind("rank.step"))


def numbers_of_each_life(plane):
    lives = {}
    for _node, incarnation, seq in plane.events:
        lives.setdefault(incarnation, []).append(seq)
    return {life: sorted(seqs) for life, seqs in lives.items()}


def test_an_agent_introduces_itself_beats_and_tells_its_health(agent, plane):
    plane.wait_kind("node.health")
    plane.wait_kind("node.heartbeat")
    hello = plane.wait_kind("node.hello")[0]
    assert hello["seq"] == 1
    beat = plane.of_kind("node.heartbeat")[0]["data"]
    assert beat["readers"]["ranks"]["ok"] is True
    assert beat["spool"]["dropped"] == 0
    assert all("Bearer good" in line for line in plane.requests if line.startswith("POST"))


def test_what_a_hook_says_arrives_soon(agent, plane):
    plane.wait_kind("node.hello")
    began = time.monotonic()
    agent.send(step(1, loss=2.0))
    event = plane.wait_kind("rank.step")[0]
    assert time.monotonic() - began < within(2.0)
    assert (event["run"], event["attempt"], event["rank"], event["data"]) == ("demo", 1, 0, {"step": 1, "loss": 2.0})


def test_malformed_datagrams_are_told_and_harm_nobody(tmp_path, plane):
    with AgentProcess(tmp_path / "n01", plane.url, config="heartbeat_s = 0.2\n") as agent:
        agent.send(b"junk", b"\x00" * 100, step(1), b"{" * 1000)
        plane.wait_kind("rank.step")
        assert "3 datagrams" in plane.wait_kind("node.log")[0]["data"]["text"]


def test_sigterm_sends_what_waits_and_ends_well(agent, plane):
    plane.wait_kind("node.hello")
    agent.send(*[step(number) for number in range(50)])
    time.sleep(0.05)
    assert agent.kill(signal.SIGTERM) == 0
    assert steps(plane) == list(range(50))
    assert not (agent.state / "agent.sock").exists()


def test_sigterm_ends_soon_although_nobody_answers(tmp_path, plane):
    agent = AgentProcess(tmp_path / "n01", "http://127.0.0.1:9").start()
    agent.send(step(1))
    began = time.monotonic()
    assert agent.kill(signal.SIGTERM) == 0
    assert time.monotonic() - began < within(6.0)


def test_what_was_spooled_without_a_control_plane_arrives_after_a_restart(tmp_path, plane):
    agent = AgentProcess(tmp_path / "n01", "http://127.0.0.1:9").start()
    agent.send(*[step(number) for number in range(30)])
    time.sleep(0.3)
    agent.kill()
    with AgentProcess(tmp_path / "n01", plane.url):
        plane.wait(lambda: steps(plane) == list(range(30)))


def test_two_agents_cannot_share_a_state_folder(agent, plane):
    second = AgentProcess(agent.state, plane.url)
    second.start(ready=False)
    assert second.process.wait(15) == 2
    assert f"another agent (pid {agent.process.pid})" in agent.log()
    agent.send(step(1))
    plane.wait_kind("rank.step")


def test_kill_nine_at_random_moments_loses_nothing_and_duplicates_nothing(tmp_path, plane):
    """Each life is ended in the middle of its work; answers are lost after the commit now and then."""
    dice = random.Random(11)
    plane.after = lambda _: (0, {}, {}) if dice.random() < 0.3 else None
    sent, agent = 0, AgentProcess(tmp_path / "n01", plane.url, config="poll_s = 1\n")
    for _life in range(6):
        agent.start()
        ends_at = time.monotonic() + dice.uniform(0.02, 0.5)
        while time.monotonic() < ends_at:
            sent += agent.send(step(sent))
            time.sleep(dice.uniform(0.0, 0.01))
        # What the agent has not read from its socket yet is the hooks' loss by design, so wait until it has.
        plane.wait(lambda last=sent - 1: agent.holds(last) or last in steps(plane))
        agent.kill()
    plane.after = lambda _: None
    with agent:
        plane.wait(lambda: len(steps(plane)) >= sent, seconds=30)
    assert steps(plane) == list(range(sent))
    for seqs in numbers_of_each_life(plane).values():
        assert seqs == list(range(1, len(seqs) + 1))


def test_a_life_that_was_cut_short_is_sent_to_its_end_before_the_next_says_hello(tmp_path, plane):
    stalled = threading.Event()
    plane.after = lambda _: stalled.set() or time.sleep(3) or (0, {}, {})
    agent = AgentProcess(tmp_path / "n01", plane.url).start()
    assert stalled.wait(10)
    agent.kill()
    plane.after = lambda _: None
    with agent:
        plane.wait_kind("node.hello", 2)
    lives = [batch["agent"]["incarnation"] for batch in plane.batches]
    changes = [life for place, life in enumerate(lives) if place == 0 or lives[place - 1] != life]
    assert len(changes) == len(set(changes)) == 2


def test_the_agent_goes_on_while_its_spool_is_full_and_says_so(tmp_path, plane):
    config = "heartbeat_s = 0.2\n[spool]\nmax_events = 200\n"
    answers = [503]
    plane.hook = lambda _: (answers[0], {}, {}) if answers else None
    with AgentProcess(tmp_path / "n01", plane.url, config=config) as agent:
        for start in range(0, 1000, 100):
            agent.send(*[step(start + number) for number in range(100)])
            time.sleep(0.02)
        answers.clear()
        beat = plane.wait(
            lambda: next((b for b in plane.of_kind("node.heartbeat") if b["data"]["spool"]["dropped"]), None)
        )
        assert beat["data"]["spool"]["dropped_by_kind"]["rank.step"] > 0
        plane.wait(lambda: 999 in steps(plane))
    for seqs in numbers_of_each_life(plane).values():
        assert seqs == list(range(1, len(seqs) + 1))


def fill(path):
    with path.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_the_agent_goes_on_while_the_disk_of_its_spool_is_full(tmp_path, plane):
    state = tmp_path / "n01"
    state.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(state)], check=False)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        with AgentProcess(state, plane.url, config="heartbeat_s = 0.2\n") as agent:
            plane.wait_kind("node.heartbeat")
            fill(state / "ballast")
            for number in range(200):
                agent.send(step(number, text="y" * 2000))
                time.sleep(0.002)
            plane.wait(lambda: steps(plane) == list(range(200)))
            plane.wait(lambda: any(b["data"]["spool"].get("error") for b in plane.of_kind("node.heartbeat")))
            (state / "ballast").unlink()
            plane.wait(lambda: "error" not in plane.of_kind("node.heartbeat")[-1]["data"]["spool"])
            agent.send(step(777))
            plane.wait(lambda: 777 in steps(plane))
    finally:
        subprocess.run(["umount", "-l", str(state)], check=False)


def test_a_command_runs_and_its_result_comes_back(agent, plane):
    plane.commands = [{"command_id": "c1", "kind": "format.disk", "args": {}, "lease_s": 30, "deadline_ms": 0}]
    result = plane.wait_kind("command.result")[0]["data"]
    assert (result["command_id"], result["state"]) == ("c1", "refused")
    assert "allowed" in result["output_tail"]


def test_a_command_given_again_after_a_restart_is_not_done_again(agent, plane):
    given = {"command_id": "c1", "kind": "format.disk", "args": {}, "lease_s": 30, "deadline_ms": 0}
    plane.commands = [given]
    plane.wait_kind("command.result")
    agent.kill()
    agent.start()
    plane.commands = [given]
    results = plane.wait_kind("command.result", 2)
    assert {result["data"]["state"] for result in results} == {"refused"}


def rank_under_shim(agent, *command):
    environ = {**os.environ, "MIDDLEWATCH_RUN": "demo", "MIDDLEWATCH_ATTEMPT": "1", "RANK": "0", "LOCAL_RANK": "0"}
    shim = [sys.executable, "-m", "middlewatch_agent.shim", "--status", str(agent.state / "ranks/demo.1.0.json")]
    return subprocess.Popen([*shim, "--log", str(agent.state / "rank0.log"), "--", *command], env=environ)


def test_the_death_of_a_rank_reaches_the_control_plane_in_milliseconds(agent, plane):
    with rank_under_shim(agent, "sleep", "60") as shim:
        pid = plane.wait_kind("rank.started")[0]["data"]["pid"]
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        event = plane.wait_kind("rank.exited")[0]
        assert time.monotonic() - began < within(0.5)
        assert event["data"]["signal"] == 9
        shim.wait(5)


def test_a_rank_that_dies_while_the_agent_is_dead_is_told_once_by_the_next_agent(agent, plane):
    with rank_under_shim(agent, sys.executable, "-c", "raise RuntimeError('boom')") as shim:
        plane.wait_kind("node.hello")
        agent.kill()
        shim.wait(15)
        for _ in range(2):
            agent.start()
            plane.wait_kind("rank.exited")
            agent.kill()
    assert len(plane.of_kind("rank.started")) == len(plane.of_kind("rank.exited")) == 1
    assert plane.of_kind("rank.exited")[0]["data"]["exit_code"] == 1
    assert any("boom" in event["data"]["text"] for event in plane.of_kind("rank.log"))


def test_a_job_that_knows_nothing_of_us_is_watched_by_its_processes_and_its_log(tmp_path, plane):
    log = tmp_path / "job-{rank}.log"
    watch = f'[[watch]]\nrun = "legacy"\ncmdline = "unlikely-job-name"\nenv = {{ JOB_MARK = "*" }}\nlog = "{log}"\n'
    environ = {**os.environ, "JOB_MARK": "7", "RANK": "3"}
    job = subprocess.Popen([sys.executable, "-c", JOB.format("unlikely-job-name")], env=environ)
    with AgentProcess(tmp_path / "n01", plane.url, config=watch):
        started = plane.wait_kind("rank.started")[0]
        assert (started["run"], started["rank"], started["data"]["pid"]) == ("legacy", 3, job.pid)
        (tmp_path / "job-3.log").write_text("step 1\nRuntimeError: CUDA error: device-side assert\n")
        plane.wait_kind("rank.log")
        job.kill()
        job.wait()
        ended = plane.wait_kind("rank.exited")[0]
        assert (ended["data"]["exit_code"], ended["data"]["signal"]) == (None, None)
    assert len(plane.of_kind("rank.started")) == 1


def test_a_job_that_ends_while_the_agent_is_dead_is_told_by_the_next_agent(tmp_path, plane):
    watch = '[[watch]]\nrun = "legacy"\ncmdline = "unlikely-name-three"\n'
    job = subprocess.Popen([sys.executable, "-c", JOB.format("unlikely-name-three")])
    with AgentProcess(tmp_path / "n01", plane.url, config=watch) as agent:
        plane.wait_kind("rank.started")
        agent.kill()
        job.kill()
        job.wait()
        agent.start()
        plane.wait_kind("rank.exited")
    assert len(plane.of_kind("rank.started")) == 1


def test_a_process_without_the_environment_is_not_a_rank(tmp_path, plane):
    watch = '[[watch]]\nrun = "legacy"\ncmdline = "unlikely-name-two"\nenv = { JOB_MARK = "7" }\n'
    environ = {**os.environ, "JOB_MARK": "8"}
    script = JOB.format("unlikely-name-two")
    with subprocess.Popen([sys.executable, "-c", script], env=environ) as job:
        with AgentProcess(tmp_path / "n01", plane.url, config="heartbeat_s = 0.1\n" + watch):
            plane.wait_kind("node.heartbeat", 3)
            assert plane.of_kind("rank.started") == []
        job.kill()


def test_a_service_log_is_followed(tmp_path, plane):
    log = tmp_path / "slurmd.log"
    log.write_text("")
    config = f'[[logs]]\nsource = "slurmd"\npath = "{log}"\n'
    with AgentProcess(tmp_path / "n01", plane.url, config=config) as agent:
        plane.wait_kind("node.hello")
        log.write_text("info: ok\nerror: node is not responding\n")
        data = plane.wait_kind("node.log")[0]["data"]
        assert (data["source"], data["text"], data["gap"]) == ("slurmd", "error: node is not responding", False)
        agent.kill()
        agent.start()
        with log.open("a") as out:
            out.write("error: second\n")
        plane.wait_kind("node.log", 2)
    assert len(plane.of_kind("node.log")) == 2


def test_a_line_that_was_logged_while_no_agent_lived_is_told_by_the_next(tmp_path, plane):
    log = tmp_path / "slurmd.log"
    log.write_text("error: from before anyone watched\n")
    config = f'heartbeat_s = 0.1\n[[logs]]\nsource = "slurmd"\npath = "{log}"\n'
    with AgentProcess(tmp_path / "n01", plane.url, config=config) as agent:
        plane.wait_kind("node.heartbeat", 2)
        agent.kill()
        with log.open("a") as out:
            out.write("error: unseen\n")
        agent.start()
        plane.wait_kind("node.log")
    assert [event["data"]["text"] for event in plane.of_kind("node.log")] == ["error: unseen"]


def test_a_second_sigterm_changes_nothing(tmp_path, plane):
    agent = AgentProcess(tmp_path / "n01", "http://127.0.0.1:9").start()
    agent.send(step(1))
    time.sleep(0.3)
    os.kill(agent.process.pid, signal.SIGTERM)
    time.sleep(0.2)
    assert agent.kill(signal.SIGTERM) == 0
    assert "Traceback" not in agent.log()


def test_an_outage_of_the_control_plane_ends_without_loss(agent, plane):
    plane.wait_kind("node.hello")
    plane.hook = lambda _: (503, {}, {"Retry-After": "0"})
    agent.send(*[step(number) for number in range(100)])
    time.sleep(0.5)
    assert steps(plane) == []
    plane.hook = lambda _: None
    plane.wait(lambda: steps(plane) == list(range(100)))


def test_everything_told_is_json_that_the_wire_format_knows(agent, plane):
    agent.send(step(1, loss="nan"))
    plane.wait_kind("rank.step")
    plane.wait_kind("node.health")
    for batch in plane.batches:
        decoded = decode_batch(json.dumps(batch).encode())
        assert decoded.rejected == []
        assert len(decoded.events) == len(batch["events"])
