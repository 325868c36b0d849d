"""A spool that cannot grow: the oldest droppable kinds go, urgent ones stay, and the heartbeat tells."""

import os
import shutil
import subprocess
import time

import pytest

from tests.trouble.world import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


@pytest.fixture
def small_disk(yard):
    """Put the state folder of n04 on a file system of two megabytes."""
    yard.kill_agent("n04")
    state = yard.cluster.state("n04")
    kept = state.with_name("n04-kept")
    shutil.copytree(state, kept, ignore=shutil.ignore_patterns("*.sock", "worker"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(state)], check=False, capture_output=True
    )
    if mounted.returncode:
        yard.start_agent("n04")
        pytest.skip("needs the right to mount a small file system")
    for name in ("token", "agent.toml"):
        shutil.copy(kept / name, state / name)
    yard.start_agent("n04")
    yield state
    yard.kill_agent("n04")
    subprocess.run(["umount", "-l", str(state)], check=True)
    shutil.rmtree(kept)
    yard.start_agent("n04")


def newest_heartbeat(yard):
    query = """SELECT data FROM events_event WHERE node = 'n04' AND kind = 'node.heartbeat'
               AND received_at > now() - interval '3 seconds' ORDER BY id DESC LIMIT 1"""
    found = yard.rows(query)
    return found[0][0] if found else {}


def test_a_full_disk_is_told_and_urgent_events_still_arrive(yard, small_disk):
    eventually(lambda: newest_heartbeat(yard), "the agent does not speak from the small disk", 30)
    with (small_disk / "filler").open("wb") as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        except OSError:
            pass
    eventually(lambda: "error" in newest_heartbeat(yard).get("spool", {}), "the full disk is not told", 30)
    rank = write_rank_status(small_disk)
    eventually(
        lambda: yard.rows("SELECT 1 FROM events_event WHERE run = 'elsewhere' AND kind = 'rank.exited'"),
        "the end of a rank was lost", 20,
    )  # fmt: skip
    (small_disk / "filler").unlink()
    assert rank
    eventually(lambda: "error" not in newest_heartbeat(yard).get("spool", {"error": 1}), "it did not recover", 60)


def write_rank_status(state):
    """A rank's end, as its shim would write it; the disk is full, so it is moved in from outside by its name."""
    sleeper = subprocess.Popen(["sleep", "0.1"])
    sleeper.wait()
    now = time.time_ns() // 1_000_000
    text = (
        f'{{"run": "elsewhere", "attempt": 1, "rank": 0, "local_rank": 0, "pid": {sleeper.pid}, "start_ticks": 1,'
        f' "started_at_ms": {now - 100}, "log": null, "worker_socket": null, "shim_pid": 1, "exit_code": null,'
        f' "signal": 9, "exited_at_ms": {now}}}'
    )
    outside = state.with_name("elsewhere.json")
    outside.write_text(text)
    os.truncate(state / "filler", (state / "filler").stat().st_size - 8192)
    shutil.copy(outside, state / "ranks" / ".elsewhere.1.0.json.tmp")
    (state / "ranks" / ".elsewhere.1.0.json.tmp").rename(state / "ranks" / "elsewhere.1.0.json")
    return text
