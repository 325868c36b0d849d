"""How long a day of 128 nodes takes to replay.

    python bench/replay.py [--nodes 128] [--hours 24]

The trace has heartbeats every 5 s and health every 15 s of each node, a step every 20 s and a checkpoint
every 100 steps. Allowed are 120 s on one core for the whole day: the command is bound to one, server included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED_S = 120.0
GPUS = 8
STEP_S = 20.0
SAVE_EVERY = 100
BEAT_S, HEALTH_S = 5, 15


def main() -> None:
    """Write the trace, play it, print the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--hours", type=float, default=24.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.trace.jsonl"
        seconds = options.hours * 3600
        events = write(path, options.nodes, seconds)
        wall, cpu = play(path)
    allowed = ALLOWED_S * options.hours / 24 * options.nodes / 128
    print(f"{events:,} events of {options.nodes} nodes, {options.hours:g} h: {wall:.1f} s on one core")
    print(f"  {cpu:.1f} s of its CPU time, {events / wall:,.0f} events/s, allowed {allowed:.0f} s")
    sys.exit(wall > allowed)


def play(path: Path) -> tuple[float, float]:
    """Replay on one core; give wall and CPU seconds."""
    began = time.monotonic()
    argv = [sys.executable, "manage.py", "replay", str(path), "--json"]
    done = subprocess.run(
        argv, cwd=ROOT, check=True, capture_output=True, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["incidents"] == [], report["incidents"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def write(path: Path, count: int, seconds: float) -> int:
    """Write the trace; give the number of events that it stands for."""
    names = [f"n{index:03d}" for index in range(count)]
    steps = int((seconds - 60) / STEP_S)
    lines = [
        header(names),
        {"t": 0, "heartbeats": {"nodes": [*names, "head"], "every_s": BEAT_S, "until": seconds, "data": beat()}},
        {"t": 0, "health": {"nodes": names, "every_s": HEALTH_S, "until": seconds, "data": health()}},
        *start(names),
        {"t": 40, "steps": {"run": "day", "attempt": 1, "rank": 0, "first": 1, "last": steps, "every_s": STEP_S,
                            "duration_ms": STEP_S * 1000, "jitter": 0.01, "loss": 2.0, "grad_norm": 0.3}},
        *saves(steps),
        {"t": seconds, "end": True},
    ]  # fmt: skip
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    beats = int(seconds / BEAT_S) * (count + 1) + int(seconds / HEALTH_S) * count
    return beats + steps + len(lines) - 5


def header(names: list[str]) -> dict[str, object]:
    """Give the world: one run on all nodes."""
    run = {"name": "day", "world_size": len(names) * GPUS, "nodes": names, "spares": [], "gpus_per_node": GPUS,
           "step_s": STEP_S, "checkpoint_every_steps": SAVE_EVERY}  # fmt: skip
    nodes = [
        {"name": name, "labels": {"rack": f"r{place // 8}"}, "gpus": gpus(name)} for place, name in enumerate(names)
    ]
    head = {"name": "head", "labels": {}, "gpus": []}
    return {"trace": 1, "name": "day", "runs": [run], "nodes": [*nodes, head], "policy": {"mode": "act"}}


def gpus(name: str) -> list[str]:
    """Give a node's GPU numbers."""
    return [f"GPU-{name}-{index}" for index in range(GPUS)]


def start(names: list[str]) -> list[dict[str, object]]:
    """Give the launch and every rank's first word."""
    started = {"scheduler": "slurm", "job_id": "1", "nodes": names, "world_size": len(names) * GPUS}
    lines = [event(1, "head", "attempt.started", None, started)]
    for place, name in enumerate(names):
        for local in range(GPUS):
            data = {"node": name, "local_rank": local, "pid": 100 + local}
            lines.append(event(2, name, "rank.started", place * GPUS + local, data))
    return lines


def saves(steps: int) -> list[dict[str, object]]:
    """Give a complete checkpoint a few seconds after each hundredth step."""
    lines = []
    for step in range(SAVE_EVERY, steps, SAVE_EVERY):
        data = {
            "step": step,
            "tier": "persistent",
            "path": f"/c/{step}",
            "state": "complete",
            "files": 8,
            "expected_files": 8,
        }
        lines.append(event(45 + step * STEP_S, "n000", "checkpoint", 0, data))
    return lines


def event(t: float, node: str, kind: str, rank: int | None, data: dict[str, object]) -> dict[str, object]:
    """Give one line of the run."""
    said = {"at_ms": round(t * 1000), "kind": kind, "run": "day", "attempt": 1, "data": data}
    return {"t": t, "node": node, "event": said if rank is None else {**said, "rank": rank}}


def beat() -> dict[str, object]:
    """Give what a healthy agent says of itself."""
    readers = {name: {"ok": True, "last_read_age_s": 1.0} for name in ("gpu", "kernel", "ranks")}
    return {"uptime_s": 86400.0, "readers": readers, "spool": {"events": 3, "bytes": 900, "dropped": 0}, "lag_ms": 12}


def health() -> dict[str, object]:
    """Give a healthy machine with eight GPUs."""
    one = {"util_pct": 98, "temp_c": 61, "power_w": 640.0, "memory_used_bytes": 70_000_000_000, "sm_clock_mhz": 1980,
           "throttle": [], "ecc": {"volatile_uncorrected": 0, "aggregate_uncorrected": 0},
           "remap": {"pending": False, "failed": False}, "nvlink_errors": 0}  # fmt: skip
    return {
        "gpus": [{"uuid": f"GPU-{index}", **one} for index in range(GPUS)],
        "host": {"cpu_pct": 40.0, "memory_available_bytes": 900_000_000_000, "load1": 40.0},
        "disks": [{"path": "/data", "free_bytes": 10**13, "free_inodes": 10**8, "write_probe_ms": 3.0}],
        "nics": [{"name": "ib0", "state": "up", "errors": 0}],
    }


if __name__ == "__main__":
    main()
