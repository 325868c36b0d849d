"""A spool that cannot grow: the oldest droppable kinds go, urgent ones stay, and the heartbeat tells."""

import json
import os
import shutil
import subprocess
import time
from contextlib import suppress

import pytest

from tests.trouble.world import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


@pytest.fixture
def small_disk(yard):
    """Put the state folder of n04 on a file system of eight megabytes."""
    yard.kill_agent("n04")
    state = yard.cluster.state("n04")
    kept = state.with_name("n04-kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(state, kept, ignore=shutil.ignore_patterns("*.sock", "worker"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(state)], check=False, capture_output=True
    )
    if mounted.returncode:
        yard.start_agent("n04")
        pytest.skip("needs the right to mount a small file system")
    for name in ("token", "agent.toml"):
        shutil.copy(kept / name, state / name)
    yard.restart_agent("n04")
    yield state
    yard.kill_agent("n04")
    subprocess.run(["umount", "-l", str(state)], check=True)
    shutil.rmtree(kept)
    yard.restart_agent("n04")


def fill(path):
    """Write until the disk is full."""
    with path.open("ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 4096)


def spool_told(yard):
    """Return what the newest heartbeat of the node's newest life says of the spool; silence says nothing good."""
    query = """SELECT data->'spool' FROM events_event WHERE node = 'n04' AND kind = 'node.heartbeat'
               AND received_at > now() - interval '3 seconds' AND incarnation = %s ORDER BY id DESC LIMIT 1"""
    found = yard.rows(query, yard.newest_life("n04"))
    return found[0][0] if found else {"error": "silent"}


def end_a_rank(state):
    """Write the end of a rank as its shim would, in the last room that is left."""
    now = time.time_ns() // 1_000_000
    status = {
        "run": "elsewhere", "attempt": 1, "rank": 0, "local_rank": 0, "pid": 2**22 - 1, "start_ticks": 1,
        "started_at_ms": now - 100, "log": None, "worker_socket": None, "shim_pid": 2**22 - 1, "exit_code": None,
        "signal": 9, "exited_at_ms": now,
    }  # fmt: skip
    os.truncate(state / "filler", (state / "filler").stat().st_size - 4096)
    scratch = state / "ranks" / ".elsewhere.1.0.json.tmp"
    scratch.write_text(json.dumps(status))
    scratch.rename(state / "ranks" / "elsewhere.1.0.json")


def test_a_full_disk_is_told_and_urgent_events_still_arrive(yard, small_disk):
    eventually(lambda: "error" not in spool_told(yard), "the agent does not speak from the small disk", 30)
    fill(small_disk / "filler")
    eventually(lambda: "full" in spool_told(yard).get("error", ""), "the full disk is not told", 30)
    end_a_rank(small_disk)
    fill(small_disk / "filler")
    eventually(
        lambda: yard.rows("SELECT 1 FROM events_event WHERE run = 'elsewhere' AND kind = 'rank.exited'"),
        "the end of a rank was lost", 20,
    )  # fmt: skip
    (small_disk / "filler").unlink()
    eventually(lambda: "error" not in spool_told(yard), "it did not recover", 60)


def test_an_agent_starts_on_a_full_disk(yard, small_disk):
    yard.kill_agent("n04")
    fill(small_disk / "filler")
    yard.restart_agent("n04")
    eventually(lambda: "full" in spool_told(yard).get("error", ""), "the full disk is not told", 30)
    (small_disk / "filler").unlink()
    eventually(lambda: "error" not in spool_told(yard), "it did not recover", 60)
