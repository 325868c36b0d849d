"""How fast a run comes back from kill -9, beside a bare script that restarts the same job.

    python bench/recovery.py [--times 5]

Everything is measured in one run, on the same job and machine. `first action` is from the kill to the
first step of the runbook; `first step` from the kill to the first step that the new ranks make. The bare
script knows at once what to restart and chooses nothing. Middlewatch is measured twice: with ranks that
each import torch anew, as the bare script's do, and with the launcher's `preload`, as the demo runs. `steps end`
tells from the kill on when each step of the runbook was over: what lies behind `launch` is the ranks' own start.
"""

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import relaunch  # noqa: E402

from controlplane.demo.cluster import PRELOAD, TRAINER, Job  # noqa: E402
from controlplane.demo.faults import FAULTS  # noqa: E402
from controlplane.demo.narrator import Narrator  # noqa: E402
from controlplane.demo.world import RUN, World  # noqa: E402

ALLOWED_ACTION_S = 1.0
ALLOWED_EXTRA_S = 2.0
POLL_S = 2.0
"""How often the benchmark looks: the times are the product's own, and looking takes the ranks' processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Seconds from one kill."""

    action_s: float
    first_step_s: float
    ends_s: Mapping[str, float]
    """When each step of the runbook was over."""


@contextmanager
def world(preload: tuple[str, ...]) -> Iterator[World]:
    """Bring up a world that trains and has something to restore."""
    home = Path(tempfile.mkdtemp(prefix="middlewatch-bench-"))
    with World.opened(home, Narrator(io.StringIO()), job=Job(preload=preload)) as opened:
        opened.story().first_steps()
        yield opened


def recover(opened: World, rank: int) -> Recovery:
    """Kill one rank and time what follows."""
    story, client = opened.story(POLL_S), opened.client
    began = time.time()
    story.suffer(FAULTS["crash"], rank)
    newest = client.get(f"/runs/{RUN}/attempts?limit=1")["items"][0]
    execution = client.get(f"/executions/{client.get('/executions?limit=1')['items'][0]['id']}")
    story.steady()
    return Recovery(
        action_s=at(execution["steps"][0]["started_at"]) - began,
        first_step_s=at(newest["first_step_at"]) - began,
        ends_s={row["name"]: at(row["finished_at"]) - began for row in execution["steps"] if row["finished_at"]},
    )


def parts(rows: Sequence[Recovery]) -> str:
    """Say when the steps up to the launch were over, each by its median."""
    names = [name for name in rows[0].ends_s if all(name in row.ends_s for row in rows)]
    upto = names[: names.index("launch") + 1]
    medians = (f"{name} {statistics.median(row.ends_s[name] for row in rows):.2f}" for name in upto)
    return f"steps end, s: {', '.join(medians)}"


def at(text: str) -> float:
    """Seconds since the epoch of a time in the REST API."""
    return datetime.fromisoformat(text).timestamp()


def measure(times: int, preload: tuple[str, ...]) -> list[Recovery]:
    """Kill a rank of one world several times."""
    with world(preload) as opened:
        return [recover(opened, number % 4) for number in range(times)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    bare = statistics.median(relaunch.measure(TRAINER).first_step_s for _ in range(times))
    print(f"bare script                : kill -9 to first step {bare:6.2f} s (median of {times})")
    for name, preload in (("Middlewatch, fresh imports", ()), ("Middlewatch, preload", PRELOAD)):
        rows = measure(times, preload)
        action = statistics.median(row.action_s for row in rows)
        first = statistics.median(row.first_step_s for row in rows)
        print(
            f"{name:27}: kill -9 to first step {first:6.2f} s, {first - bare:+.2f} s to bare "
            f"(allowed +{ALLOWED_EXTRA_S:g}); to first action {action:.2f} s (allowed {ALLOWED_ACTION_S:g})"
        )
        print(f"{'':27}  {parts(rows)}")


if __name__ == "__main__":
    main()
