"""How much server time a batch costs, next to Prometheus Pushgateway on the same load.

64 connections, one per node, each sends a batch of 20 events, waits for its
acknowledgement (which Middlewatch sends after the commit) and sends the next.
Pushgateway gets 20 samples per request on as many connections, and keeps the
last of each in memory. Server time is the user and system time of the server
process; PostgreSQL's is shown apart.

    python bench/ingest.py [--seconds 10] [--pushgateway /path/to/prometheus-pushgateway]

Without a path, Debian's package is downloaded and unpacked, never installed.
"""

import argparse
import asyncio
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import uvloop

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from controlplane.embedded.group import Group  # noqa: E402
from controlplane.embedded.home import Home  # noqa: E402
from controlplane.embedded.servers import Addresses, start_servers  # noqa: E402

CONNECTIONS = 64
EVENTS = 20
WARM_UP_S = 2.0
TARGET_PER_CPU_S = 2000
TARGET_P99_S = 0.150
STEP = (
    '{"seq":%d,"at_ms":%d,"kind":"rank.step","run":"llama-70b","attempt":14,"rank":0,'
    '"data":{"step":%d,"duration_ms":5120,"tokens":4194304,"loss":1.83,"grad_norm":0.71}}'
)
PREPARE = f"""
import django; django.setup()
from datetime import UTC, datetime
from django.core.management import call_command
from controlplane.events import partitions
from controlplane.fleet import actions
call_command("migrate", verbosity=0)
now = datetime.now(UTC)
partitions.maintain(now)
token = actions.create_enrolment_token("bench", now, {CONNECTIONS})
print(*[actions.enrol(token, f"bench-{{number:02}}", now) for number in range({CONNECTIONS})])
"""

Request = Callable[[int, int], bytes]
"""Builds the next message of a connection from its number and how many it has sent."""


@dataclass
class Load:
    """Closed-loop clients: each has one request under way at any time."""

    port: int
    request: Request
    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    counting: bool = False

    async def run(self, seconds: float, used_s: Callable[[], Sequence[float]]) -> tuple[float, list[float]]:
        """Warm up, then count for `seconds`; return the time taken and the CPU seconds used in it."""
        clients = [asyncio.create_task(self._client(number)) for number in range(CONNECTIONS)]
        await asyncio.sleep(WARM_UP_S)
        before, self.counting, began = used_s(), True, time.perf_counter()
        await asyncio.sleep(seconds)
        self.counting, elapsed, after = False, time.perf_counter() - began, used_s()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        return elapsed, [end - start for start, end in zip(before, after, strict=True)]

    async def _client(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent = 0
        while True:
            message = self.request(number, sent)
            sent += 1
            began = time.perf_counter()
            writer.write(message)
            status = await _status(reader)
            if self.counting:
                self.latencies.append(time.perf_counter() - began)
                self.failures += status not in (200, 202)


async def _status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    at = lower.find(b"content-length:")
    if at >= 0:
        await reader.readexactly(int(lower[at + 15 : lower.index(b"\r", at)]))
    return int(head[9:12])


def _http(path: str, body: bytes, header: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n{header}\r\n\r\n"
    return head.encode() + body


def batches(tokens: Sequence[str]) -> Request:
    """Batches as agents send them, each event once."""
    life = secrets.token_hex(8)

    def request(number: int, sent: int) -> bytes:
        now, first = time.time_ns() // 1_000_000, sent * EVENTS + 1
        events = ",".join(STEP % (seq, now, 80_000 + seq) for seq in range(first, first + EVENTS))
        body = (
            f'{{"wire":1,"agent":{{"node":"bench-{number:02}","incarnation":"{life}","version":"0.1.0"}},'
            f'"sent_at_ms":{now},"events":[{events}]}}'
        )
        return _http("/api/v1/ingest", body.encode(), f"Authorization: Bearer {tokens[number]}")

    return request


def samples(number: int, sent: int) -> bytes:
    """As many samples in Pushgateway's text format."""
    lines = [f'step_metric_{n}{{run="llama-70b",rank="0"}} {80_000 + sent}\n' for n in range(EVENTS)]
    path = f"/metrics/job/train/instance/bench-{number:02}"
    return _http(path, "".join(lines).encode(), "Content-Type: text/plain")


@dataclass(frozen=True)
class Figure:
    """What was measured of one server."""

    batches: int
    elapsed_s: float
    used_s: list[float]
    p50_s: float
    p99_s: float
    failures: int

    @property
    def per_cpu_s(self) -> float:
        """Batches per CPU-second of the server."""
        return self.batches / self.used_s[0]

    def show(self, name: str) -> None:
        """Print one line."""
        print(
            f"{name:12} {self.batches / self.elapsed_s:6.0f} batches/s  {self.per_cpu_s:6.0f} per server CPU-second  "
            f"p50 {self.p50_s * 1000:6.1f} ms  p99 {self.p99_s * 1000:6.1f} ms  failures {self.failures}"
        )


def measure(port: int, request: Request, seconds: float, used_s: Callable[[], Sequence[float]]) -> Figure:
    """Put the load on a server."""
    load = Load(port, request)
    elapsed, used = uvloop.run(load.run(seconds, used_s))
    cuts = statistics.quantiles(load.latencies, n=100)
    return Figure(len(load.latencies), elapsed, used, cuts[49], cuts[98], load.failures)


def bench_middlewatch(stack: ExitStack, seconds: float) -> Figure:
    """One ingest process with a PostgreSQL and a Valkey of its own, durable."""
    home = Path(tempfile.mkdtemp(prefix="mw-bench-"))
    home.chmod(0o711)
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    group = Group(lambda _: None)
    stack.callback(group.close)
    found = start_servers(Home(home), group, Addresses(database_url="", redis_url=""), durable=True, say=print)
    env = os.environ | {
        "DATABASE_URL": found.database_url, "REDIS_URL": found.redis_url,
        "MIDDLEWATCH_SECRET_KEY": secrets.token_hex(32), "MIDDLEWATCH_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.base",
    }  # fmt: skip
    prepared = subprocess.run(
        [sys.executable, "-c", PREPARE], cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    port = _free_port()
    pid = _start(
        stack, [sys.executable, "-m", "uvicorn", "controlplane.ingest.asgi:application", "--port", str(port),
                "--log-level", "warning", "--no-access-log", "--timeout-keep-alive", "75",
                "--timeout-graceful-shutdown", "1"], env,
    )  # fmt: skip
    _wait_for(port)
    postmaster = psutil.Process(group.pids()["postgres"])

    def used_s() -> Sequence[float]:
        return _cpu_s(pid), _cpu_s(postmaster.pid, *[child.pid for child in postmaster.children()])

    return measure(port, batches(prepared.stdout.split()), seconds, used_s)


def bench_pushgateway(stack: ExitStack, seconds: float, program: str) -> Figure:
    """Pushgateway with its defaults: everything in memory."""
    port = _free_port()
    pid = _start(stack, [program, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], os.environ)
    _wait_for(port)
    return measure(port, samples, seconds, lambda: (_cpu_s(pid),))


def debians_pushgateway(stack: ExitStack) -> str:
    """Unpack Debian's package in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="mw-pushgateway-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["apt-get", "download", "prometheus-pushgateway"], cwd=folder, check=True, capture_output=True)
    package = next(folder.glob("*.deb"))
    subprocess.run(["dpkg", "-x", package, folder / "root"], cwd=folder, check=True, capture_output=True)
    return str(folder / "root/usr/bin/prometheus-pushgateway")


def _cpu_s(*pids: int) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(one.user + one.system for one in times)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def _start(stack: ExitStack, argv: list[str], env: os._Environ[str] | dict[str, str]) -> int:
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop() -> None:
        process.terminate()
        process.wait(20)

    stack.callback(stop)
    return process.pid


def main() -> None:
    """Measure both and compare."""
    parser = argparse.ArgumentParser(description="What a batch costs, beside Prometheus Pushgateway.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pushgateway", default=shutil.which("prometheus-pushgateway"))
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{CONNECTIONS} connections, batches of {EVENTS} events, {chosen.seconds:g} s each, ", end="")
    print(f"{os.cpu_count()} cores, load average before it {load:.1f}")
    with ExitStack() as stack:
        ours = bench_middlewatch(stack, chosen.seconds)
    ours.show("middlewatch")
    ingest, postgres = (used / ours.batches * 1e6 for used in ours.used_s)
    print(f"{'':12} CPU per batch: ingest {ingest:.0f} µs, PostgreSQL beside it {postgres:.0f} µs")
    with ExitStack() as stack:
        try:
            program = chosen.pushgateway or debians_pushgateway(stack)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            raise SystemExit(f"no Pushgateway to compare with: {error}") from error
        theirs = bench_pushgateway(stack, chosen.seconds, program)
    theirs.show("pushgateway")
    print(f"ratio: {ours.per_cpu_s / theirs.per_cpu_s:.1f} times Pushgateway's batches per server CPU-second")
    for what, met in (
        (f"{TARGET_PER_CPU_S} batches per server CPU-second", ours.per_cpu_s >= TARGET_PER_CPU_S),
        (f"p99 under {TARGET_P99_S * 1000:.0f} ms", ours.p99_s < TARGET_P99_S),
    ):
        print(f"target {what}: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
