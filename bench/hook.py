"""What one step costs on the training thread: `python bench/hook.py`.

Three cases: an agent that reads, no agent at all, and an agent that has stopped
reading, so that the socket is full. Between steps the thread works through a
megabyte of memory, as a training keeps its core and caches busy with other things.
Prints the median and the 99th percentile of `Watch.step` in microseconds, and the
median of the processor time it used: on a machine with more work than cores the
first two also hold the turns that other processes take. A step asks for switches too,
as a loop that can save or stop on demand does.
"""

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from middlewatch_agent import hooks

STEPS = 5_000
WORK = bytes(1 << 20)
LIMIT_US = 20.0
READER = """
import socket, sys
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.bind(sys.argv[1])
print("ready", flush=True)
while True:
    agent.recv(65536)
"""


Took = list[tuple[float, float]]
"""Seconds and seconds of processor time of each step."""


def steps(path: Path) -> Took:
    """Take the time of each step of a rank whose agent listens at `path`."""
    environ = {"MIDDLEWATCH_SOCKET": str(path), "MIDDLEWATCH_RUN": "bench", "MIDDLEWATCH_ATTEMPT": "1", "RANK": "0"}
    watch = hooks.attach(environ)
    took: Took = []
    for step in range(STEPS):
        used, began = time.thread_time(), time.perf_counter()
        watch.step(step, loss=1.8312345, tokens=4_194_304, grad_norm=0.7312, lr=3e-4)
        assert not watch.stop_wanted()
        assert not watch.save_wanted()
        took.append((time.perf_counter() - began, time.thread_time() - used))
        zlib.crc32(WORK)
    return took


def with_reader(folder: Path) -> Took:
    """An agent that reads."""
    path = folder / "read.sock"
    with subprocess.Popen([sys.executable, "-c", READER, str(path)], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        try:
            return steps(path)
        finally:
            agent.kill()


def without_agent(folder: Path) -> Took:
    """No agent at all."""
    return steps(folder / "nobody.sock")


def with_full_socket(folder: Path) -> Took:
    """An agent that has stopped reading."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(folder / "full.sock"))
        return steps(folder / "full.sock")


def figures(took: Took) -> dict[str, float]:
    """Median and 99th percentile in microseconds."""
    cut = statistics.quantiles((wall for wall, _ in took), n=100)
    used = statistics.median(cpu for _, cpu in took)
    return {"median_us": round(cut[49] * 1e6, 1), "p99_us": round(cut[98] * 1e6, 1), "cpu_us": round(used * 1e6, 1)}


def main() -> dict[str, dict[str, float]]:
    """Measure all three cases."""
    cases = {"agent": with_reader, "no agent": without_agent, "full socket": with_full_socket}
    with tempfile.TemporaryDirectory() as folder:
        return {name: figures(case(Path(folder))) for name, case in cases.items()}


if __name__ == "__main__":
    found = main()
    if "--json" in sys.argv:
        print(json.dumps(found))
    else:
        for name, one in found.items():
            print(
                f"hook, {name:12} median {one['median_us']:6.1f} µs   p99 {one['p99_us']:8.1f} µs   "
                f"processor {one['cpu_us']:6.1f} µs   (limit {LIMIT_US:.0f} µs)"
            )
    sys.exit(any(one["median_us"] > LIMIT_US for one in found.values()))
