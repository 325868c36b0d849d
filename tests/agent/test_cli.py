import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from middlewatch_agent import cli, config, lock
from middlewatch_agent.doctor import examine
from middlewatch_wire import COMMANDS


@pytest.fixture(autouse=True)
def _signals_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def words(capsys):
    out = capsys.readouterr()
    return out.out + out.err


def settings(tmp_path, text):
    (tmp_path / "agent.toml").write_text(text)
    return tmp_path


def verdicts(state, **overrides):
    return {verdict.topic: verdict for verdict in examine(state, config.load(state, overrides))}


def test_an_agent_without_settings_has_a_default_for_each(tmp_path):
    loaded = config.load(tmp_path)
    assert (loaded.heartbeat_s, loaded.health_s) == (5.0, 15.0)
    assert loaded.node
    assert set(loaded.commands) == COMMANDS.keys() - {"rank.freeze"}, "what hurts on purpose has to be allowed by name"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("heartbeat_s = 0.0", "heartbeat_s"),
        ('heartbeat_s = "5"', "heartbeat_s"),
        ("hartbeat_s = 5.0", "hartbeat_s"),
        ("[spool]\nmax_bytes = -1", "spool.max_bytes"),
        ('[[watch]]\nrun = "x"', "watch"),
        ("commands = [1]", "commands"),
        ("disks = [" + '"/a",' * 33 + "]", "disks"),
        ('url = "ftp://plane"', "url"),
        ("= 5", "agent.toml"),
        ('node = "' + "n" * 101 + '"', "node"),
        ('node = "a\\u0007b"', "node"),
    ],
)
def test_a_mistake_in_the_settings_names_its_field(tmp_path, text, field):
    with pytest.raises(config.ConfigError, match=field):
        config.load(settings(tmp_path, text))


def test_the_command_line_wins_over_the_file(tmp_path):
    settings(tmp_path, 'url = "http://file"\nnode = "file"')
    loaded = config.load(tmp_path, {"url": "http://flag", "node": None})
    assert (loaded.url, loaded.node) == ("http://flag", "file")


def test_whole_seconds_may_be_written_without_a_point(tmp_path):
    assert config.load(settings(tmp_path, "heartbeat_s = 5")).heartbeat_s == 5.0


def test_enrolling_buys_a_token_that_only_the_owner_may_read(plane, tmp_path, capsys):
    state = tmp_path / "state"
    argv = ["enrol", "--url", plane.url, "--token", "mw-enrol", "--name", "n01", "--state", str(state)]
    assert cli.main(argv) == 0
    assert (state / "token").read_text().strip() == "node-token-of-n01"
    assert stat.S_IMODE((state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    loaded = config.load(state)
    assert (loaded.url, loaded.node) == (plane.url, "n01")
    assert "middlewatch-agent run" in words(capsys)


def test_enrolling_again_keeps_the_other_settings(plane, tmp_path):
    state = settings(tmp_path, 'url = "http://old"\nheartbeat_s = 1.0\n\n[labels]\nrack = "r7"\n')
    argv = ["enrol", "--url", plane.url, "--token", "mw-enrol", "--name", "n02", "--state", str(state)]
    assert cli.main(argv) == 0
    loaded = config.load(state)
    assert (loaded.url, loaded.node, loaded.heartbeat_s, loaded.labels) == (plane.url, "n02", 1.0, {"rack": "r7"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"--token": "wrong"}, "enrolment token"),
        ({"--url": "http://127.0.0.1:9"}, "does not answer"),
        ({"--url": "nonsense"}, "names no host"),
        ({"--name": "n" * 101}, "name"),
    ],
)
def test_an_enrolment_that_fails_says_why_and_leaves_nothing(plane, tmp_path, capsys, change, why):
    options = {"--url": plane.url, "--token": "mw-enrol", "--name": "n01", "--state": str(tmp_path / "s")} | change
    assert cli.main(["enrol", *[word for pair in options.items() for word in pair]]) == 1
    assert why in words(capsys)
    assert not (tmp_path / "s" / "token").exists()


def test_running_without_an_address_is_refused_in_plain_words(tmp_path, capsys):
    assert cli.main(["run", "--state", str(tmp_path)]) == 2
    assert "enrol this node first" in words(capsys)


def test_a_path_too_long_for_a_socket_is_refused_in_plain_words(tmp_path, capsys):
    state = tmp_path / ("x" * 120)
    assert cli.main(["run", "--state", str(state), "--url", "http://127.0.0.1:9"]) == 2
    assert "cannot start" in words(capsys)


def test_the_spool_can_be_looked_at_before_there_is_one(tmp_path, capsys):
    assert cli.main(["spool", "--state", str(tmp_path)]) == 0
    assert "no spool yet" in words(capsys)


def test_the_command_line_starts_without_torch_django_or_psutil():
    heavy = ("torch", "django", "psutil", "pynvml")
    code = (
        f"import sys, middlewatch_agent.cli, middlewatch_agent.agent; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_lock_is_held_by_one_process_and_freed_with_it(tmp_path):
    held = lock.lock(tmp_path)
    with pytest.raises(lock.LockedError, match=str(os.getpid())):
        lock.lock(tmp_path)
    assert lock.holder(tmp_path) == os.getpid()
    os.close(held)
    assert lock.holder(tmp_path) is None


def test_the_doctor_finds_a_healthy_node_healthy(agent, plane, capsys):
    found = verdicts(agent.state)
    for topic in ("name", "connection", "clock", "token", "agent", "state folder", "disk", "spool", "hook socket"):
        assert found[topic].status == 0, found[topic]
    assert cli.main(["doctor", "--state", str(agent.state)]) == 0
    assert "training hooks are heard" in words(capsys)


def test_the_doctor_sees_a_clock_that_is_off(agent, plane):
    plane.skew_ms = 90_000
    found = verdicts(agent.state)["clock"]
    assert found.status == 1
    assert "90.0 s behind" in found.text


def test_the_doctor_sees_a_token_that_is_not_valid(agent):
    (agent.state / "token").write_text("stolen")
    assert "enrol this node again" in verdicts(agent.state)["token"].text


def test_the_doctor_sees_that_nobody_answers(tmp_path):
    found = verdicts(tmp_path, url="http://127.0.0.1:9")
    assert found["connection"].status == 1
    assert "token" not in found


def test_the_doctor_sees_a_name_that_does_not_resolve(tmp_path):
    assert verdicts(tmp_path, url="http://no-such-host.invalid")["name"].status == 1


def test_the_doctor_sees_a_token_that_others_may_read(agent):
    (agent.state / "token").chmod(0o644)
    assert "chmod 600" in verdicts(agent.state)["state folder"].text


def test_the_doctor_sees_a_dead_socket(agent):
    agent.kill()
    found = verdicts(agent.state)["hook socket"]
    assert (found.status, "refused" in found.text) == (1, True)


def test_the_doctor_sees_a_kernel_log_that_is_closed_to_it(tmp_path):
    found = verdicts(tmp_path, kernel_log="kmsg", url="")["kernel log"]
    assert found.status in {0, 1}
    settings(tmp_path, f'kmsg_path = "{tmp_path}/none"\nkernel_log = "kmsg"')
    assert verdicts(tmp_path)["kernel log"].status == 1


def test_the_doctor_sees_a_gpu_library_that_does_not_start(tmp_path):
    assert verdicts(tmp_path, gpu="recorded:/missing")["GPUs"].status == 1
    eight = Path(__file__).parent / "fixtures/eight-gpus.json"
    assert verdicts(tmp_path, gpu=f"recorded:{eight}")["GPUs"].text.startswith("8 (NVIDIA H100")


def test_a_launcher_that_cannot_be_used_is_named(tmp_path, capsys):
    argv = ["--state", str(tmp_path), "--url", "http://127.0.0.1:9", "--launcher", str(tmp_path / "none.toml")]
    assert cli.main(["run", *argv]) == 2
    assert "none.toml" in words(capsys)
    assert verdicts(tmp_path, launcher=str(tmp_path / "none.toml"))["launcher"].status == 1


def test_the_doctor_ends_with_status_one_when_something_is_bad(tmp_path, capsys):
    assert cli.main(["doctor", "--state", str(tmp_path), "--url", "http://127.0.0.1:9"]) == 1
    assert "BAD" in words(capsys)


def test_the_doctor_takes_no_command_from_the_agent(agent, plane):
    plane.wait(lambda: any(line.startswith("GET /api/v1/commands") for line in plane.requests))
    before = time.monotonic()
    polls = sum("commands" in line for line in plane.requests)
    verdicts(agent.state)
    assert sum("commands" in line for line in plane.requests) - polls <= 1 + int(time.monotonic() - before)
