"""Reading what ranks answer: recorded samples and hostile ones."""

import json
from pathlib import Path

import pytest
from middlewatch_agent.collect import flight, frames, kernel

SAMPLES = Path(__file__).parent / "fixtures"


def last(name: str, rank: int) -> dict[str, dict]:
    found = flight.last_collectives((SAMPLES / name).read_bytes(), rank)
    return {one["group"]: one for one in found}


def test_a_rank_that_hangs_waits_in_a_collective_that_the_guilty_one_never_joined():
    waiting, guilty = last("hang_0.json", 0)["default_pg"], last("hang_1.json", 1)["default_pg"]
    assert (waiting["seq"], waiting["op"], waiting["state"]) == (5, "all_reduce", "waiting")
    assert (guilty["seq"], guilty["state"]) == (4, "completed")
    assert (waiting["sizes"], waiting["present"]) == ([[16]], [0])


def test_ranks_that_call_different_collectives_differ_in_operation_or_size():
    found = [last(f"mm_{rank}.json", rank)["default_pg"] for rank in range(3)]
    assert len({(one["op"], json.dumps(one["sizes"])) for one in found}) > 1


def test_groups_keep_apart():
    assert set(last("hang_0.json", 0)) == {"default_pg", "group 1"}


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"\xff", b'{"entries": 3}', b'{"entries": [{"process_group": []}]}', b"[" * 100_000, b"null"],
)
def test_what_is_no_recording_tells_nothing(raw):
    assert flight.last_collectives(raw, 0) == []


def test_a_recording_without_entries_tells_nothing():
    assert flight.last_collectives(b'{"version": "2.10"}', 0) == []


def test_a_hostile_recording_stays_small():
    entry = {"collective_seq_id": 1, "profiling_name": "x" * 5000, "input_sizes": [[1] * 50] * 100}
    entries = [{**entry, "process_group": [f"{'g' * 5000}{number}", ""]} for number in range(200)]
    found = flight.last_collectives(json.dumps({"entries": entries}).encode(), 0)
    assert len(found) <= flight.MAX_GROUPS
    for one in found:
        assert len(one["op"]) <= flight.MAX_TEXT
        assert len(one["group"]) <= flight.MAX_TEXT
        assert len(one["sizes"]) <= flight.MAX_SIZES
        assert len(one["sizes"][0]) <= flight.MAX_DIMENSIONS


def test_the_main_thread_is_the_last_one_of_a_dump():
    dump = (SAMPLES / "debug_server_stacks.txt").read_text().split("=== Rank 1")[0]
    assert frames.main_thread(dump) == (
        "all_reduce (torch/distributed/distributed_c10d.py:3252)",
        "wrapper (torch/distributed/c10d_logger.py:83)",
        "main (lab/fr/dbg2.py:11)",
        "<module> (lab/fr/dbg2.py:14)",
    )


@pytest.mark.parametrize("dump", ["", "nothing here", "Thread 0x1 (most recent call first):\n  <no Python frame>\n"])
def test_a_dump_without_python_frames_has_none(dump):
    assert frames.main_thread(dump) == ()


def test_a_deep_stack_and_a_long_name_are_cut():
    deep = "Thread 0x1 (most recent call first):\n" + f'  File "/{"p" * 999}", line 1 in {"f" * 999}\n' * 500
    found = frames.main_thread(deep)
    assert len(found) == frames.MAX_FRAMES
    assert len(found[0]) == frames.MAX_FRAME_CHARS


def test_cpu_use_is_the_difference_of_two_looks():
    before, after = kernel.Sample(state="R", ticks=100), kernel.Sample(state="T", ticks=150, wchan="do_signal_stop")
    stack = kernel.describe(before, after, 1.0)
    assert stack.frames == (
        "state T (stopped)", "sleeps in do_signal_stop", f"used {50_000 // kernel.TICKS_PER_S} ms of CPU in 1000 ms",
    )  # fmt: skip


def test_a_process_that_took_the_pid_since_counts_as_gone():
    assert kernel.sample(1, start_ticks=-1).state == kernel.GONE
    assert not kernel.sample(1, start_ticks=-1).exists
