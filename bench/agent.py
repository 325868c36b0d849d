"""What the node agent costs at its default periods with eight GPUs: resident memory and processor time.

    python bench/agent.py [--seconds 60] [--report FILE]

Targets: under 40 MB resident and 0.2 % of one core. Read from /proc of the real
process, which talks to a small HTTP server in this one.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.agent.plane import Plane  # noqa: E402
from tests.agent.process import AgentProcess  # noqa: E402

SETTLE_S = 5.0
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
GPUS = ROOT / "tests/agent/fixtures/eight-gpus.json"


def cpu_s(pid: int) -> float:
    """Processor seconds of all threads, also of those that have ended (the kernel's exact run time in whole ticks)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def resident_mb(pid: int) -> float:
    """Resident memory in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def measure(seconds: float) -> dict[str, float]:
    """Run one agent and give `resident_mb`, `core_pct`, `start_s` and the number of requests."""
    plane = Plane()
    plane.next_in_ms = 5000
    plane.poll_s = 25.0
    with tempfile.TemporaryDirectory(prefix="mw-bench-") as folder:
        agent = AgentProcess(Path(folder) / "n01", plane.url, config=f'gpu = "recorded:{GPUS}"\n')
        settings = f'url = "{plane.url}"\nnode = "n01"\ngpu = "recorded:{GPUS}"\n'
        (agent.state / "agent.toml").write_text(settings)
        began = time.monotonic()
        with agent:
            start_s = time.monotonic() - began
            assert agent.process is not None
            pid = agent.process.pid
            time.sleep(SETTLE_S)
            before, at, requests = cpu_s(pid), time.monotonic(), len(plane.requests)
            time.sleep(seconds)
            used, took = cpu_s(pid) - before, time.monotonic() - at
            result = {"resident_mb": resident_mb(pid), "core_pct": 100 * used / took, "start_s": start_s}
            result["requests"] = len(plane.requests) - requests
    plane.close()
    return result


def main() -> None:
    """Measure, print, and write the figures where asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    result = measure(options.seconds)
    print(f"agent, 8 GPUs, default periods: {result['resident_mb']:.1f} MB resident (target 40), "
          f"{result['core_pct']:.3f} % of a core (target 0.2), ready after {result['start_s']:.2f} s, "
          f"{result['requests']:.0f} requests in {options.seconds:.0f} s")  # fmt: skip
    if options.report:
        options.report.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
