"""How many durable steps two workers make, and how soon another one carries on what a killed one left.

A step is what it is in a recovery: claimed under a lease, the world read again, its intent, its end
and a sentence of the chronicle committed with full durability (`fsync`). Steps that only look share a
commit, steps that act have one each; both are measured. Both workers look at the same executions, and
no page follows them. For the takeover a worker is killed (SIGKILL) in the middle of an execution, ten
times; another looks once a second, as beat has it look, and the time is taken until it has made a step.

    python bench/executions.py [--executions 200] [--kills 10]
"""

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

STEPS = 25
WORKERS = 2
TARGET_STEPS_S = 500.0
TARGET_TAKEOVER_S = 3.0
LOOK_S = 1.0
GIVE_UP_S = 20.0
LOOKS, ACTS = "bench-looks", "bench-acts"


def runbook(name: str, action: str) -> str:
    """Write a runbook of steps that end at once."""
    steps = "".join(f"  - do: {action}\n    name: s{number:02}\n" for number in range(STEPS))
    head = f"runbook: {name}\ncode: X-01\nversion: 1\ntitle: Make steps\nsummary: Steps that end at once.\n"
    return f"{head}start: {{}}\nsteps:\n{steps}"


def now() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


@contextmanager
def world() -> Iterator[None]:
    """Start a PostgreSQL and a Valkey of our own with full durability, and tell Django where they are."""
    from tests.servers import private_servers  # noqa: PLC0415 - after the path is set

    with tempfile.TemporaryDirectory(prefix="mw-bench-") as folder, private_servers(durable=True) as servers:
        Path(folder, "looks.yaml").write_text(runbook(LOOKS, "bench_look"))
        Path(folder, "acts.yaml").write_text(runbook(ACTS, "bench_act"))
        os.environ |= {
            "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url, "MIDDLEWATCH_RUNBOOKS": folder,
            "MIDDLEWATCH_ACTIONS": "bench_action", "DJANGO_SETTINGS_MODULE": "controlplane.settings.base",
            "PYTHONPATH": os.pathsep.join(sys.path[:2]),
        }  # fmt: skip
        begin()
        from django.core.management import call_command  # noqa: PLC0415

        call_command("migrate", verbosity=0)
        yield


def begin() -> None:
    """Set Django up in this process."""
    import django  # noqa: PLC0415

    django.setup()


def make(name: str, count: int, mark: str) -> list[int]:
    """Create executions of a runbook that wait for a worker, each on a run of its own."""
    from controlplane.incidents.models import Incident  # noqa: PLC0415
    from controlplane.runbooks import registry  # noqa: PLC0415
    from controlplane.runbooks.definitions import keep  # noqa: PLC0415
    from controlplane.runbooks.models import Execution  # noqa: PLC0415
    from controlplane.runs.models import Attempt, Run  # noqa: PLC0415

    at, book = now(), registry.runbook(name)
    keep(book, at)
    made = []
    for number in range(count):
        run = Run.objects.create(name=f"{mark}-{number}", launcher="head", nodes_wanted=1, created_at=at)
        Attempt.objects.create(run=run, number=1, nodes=["n01"], started_at=at)
        incident = Incident.objects.create(run=run, klass="crash", title="bench", began_at=at, opened_at=at)
        made.append(
            Execution.objects.create(
                runbook=book.id, version=1, digest=book.digest, approved_by="bench", incident=incident, run=run,
                attempt=1, created_at=at, wake_at=at, key=f"{mark}:{number}",
            ).pk
        )  # fmt: skip
    return made


def work(numbers: Sequence[int], ready: Any, go: Any, used: Any = None) -> None:
    """Carry executions on, as a worker does; what another has is left to it. Tell the CPU seconds used."""
    begin()
    from controlplane.runbooks import engine, registry  # noqa: PLC0415

    owner = f"bench:{os.getpid()}"
    registry.catalog()
    ready.release()
    go.wait()
    began = time.process_time()
    for number in numbers:
        engine.advance(number, owner, now())
    if used is not None:
        used.put(time.process_time() - began)


def speed(name: str, count: int) -> tuple[float, float]:
    """Return the steps per second that the workers make together, and the CPU seconds of a worker per step."""
    numbers = make(name, count, name)
    spawn = multiprocessing.get_context("spawn")
    ready, go, used = spawn.Semaphore(0), spawn.Event(), spawn.Queue()
    orders = [numbers, numbers[::-1]]
    workers = [spawn.Process(target=work, args=(orders[place % 2], ready, go, used)) for place in range(WORKERS)]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    began = time.perf_counter()
    go.set()
    cpu_s = sum(used.get() for _ in workers)
    took = time.perf_counter() - began
    for worker in workers:
        worker.join()
    check(numbers)
    return count * STEPS / took, cpu_s / (count * STEPS)


def check(numbers: Sequence[int]) -> None:
    """Fail unless every step of every execution was made once and told once."""
    from controlplane.chronicle.models import Entry  # noqa: PLC0415
    from controlplane.runbooks.models import Execution, StepRun  # noqa: PLC0415

    ended = Execution.objects.filter(pk__in=numbers, state="succeeded").count()
    made = StepRun.objects.filter(execution_id__in=numbers, state="done").count()
    tried = StepRun.objects.filter(execution_id__in=numbers).count()
    told = Entry.objects.filter(kind="step").count()
    assert ended == len(numbers), f"{ended} of {len(numbers)} ended"
    assert made == tried == len(numbers) * STEPS, f"{made} steps made in {tried} tries"
    assert told >= made, f"{told} steps told"


def takeovers(times: int) -> Iterator[float]:
    """Kill the worker of an execution again and again, and time until another has made a step of it."""
    from controlplane.runbooks import engine  # noqa: PLC0415
    from controlplane.runbooks.models import StepRun  # noqa: PLC0415

    spawn, chance = multiprocessing.get_context("spawn"), random.Random(4)
    for number in range(times):
        (execution,) = make(ACTS, 1, f"kill-{number}")
        ready, go = spawn.Semaphore(0), spawn.Event()
        os.environ["BENCH_STEP_S"] = "0.05"
        victim = spawn.Process(target=work, args=([execution], ready, go))
        victim.start()
        ready.acquire()
        go.set()
        while StepRun.objects.filter(execution=execution).count() < 3:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.2)
        victim.kill()
        killed = time.perf_counter()
        victim.join()
        os.environ["BENCH_STEP_S"] = "0"
        made = StepRun.objects.filter(execution=execution).count()
        phase = chance.random() * LOOK_S
        while StepRun.objects.filter(execution=execution).count() == made:
            passed = time.perf_counter() - killed
            assert passed < GIVE_UP_S, "nobody carried it on"
            time.sleep((phase - passed) % LOOK_S)
            with suppress(KeyError):
                engine.advance(execution, "bench:successor", now())
        yield time.perf_counter() - killed


def follow(kills: int) -> float:
    """Print how soon killed workers were followed, and return the longest time in seconds."""
    found = sorted(takeovers(kills))
    print(f"takeover of a killed worker: median {found[len(found) // 2]:.2f} s, longest {found[-1]:.2f} s "
          f"of {len(found)} (target {TARGET_TAKEOVER_S:.0f})")  # fmt: skip
    return found[-1]


def main() -> None:
    """Print the figures; fail when one misses its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    args = parser.parse_args()
    with world():
        rate, cpu_s = speed(LOOKS, args.executions)
        print(f"steps that look: {rate:.0f} durable steps/s on {WORKERS} workers (target {TARGET_STEPS_S:.0f}), "
              f"{cpu_s * 1000:.2f} ms of a worker's CPU each")  # fmt: skip
        acts, cpu_s = speed(ACTS, args.executions)
        print(f"steps that act, a commit each: {acts:.0f} durable steps/s (target {TARGET_STEPS_S:.0f}), "
              f"{cpu_s * 1000:.2f} ms of a worker's CPU each")  # fmt: skip
        longest = follow(args.kills) if args.kills else 0.0
    sys.exit(min(rate, acts) < TARGET_STEPS_S or longest >= TARGET_TAKEOVER_S)


if __name__ == "__main__":
    main()
