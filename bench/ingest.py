"""How much server time a batch costs, next to Prometheus Pushgateway on the same load.

64 connections, one per node, each sends a batch of 20 events, waits for its
acknowledgement (which Middlewatch sends after the commit) and sends the next.
Pushgateway gets 20 samples per request on the same connections, and keeps the
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
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psutil
import uvloop

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CONNECTIONS = 64
EVENTS = 20
WARM_UP_S = 2.0
STEP = (
    '{"seq":%d,"at_ms":%d,"kind":"rank.step","run":"llama-70b","attempt":14,"rank":0,'
    '"data":{"step":%d,"duration_ms":5120,"tokens":4194304,"loss":1.83,"grad_norm":0.71}}'
)


class Load:
    """Closed-loop clients: each has one request under way at any time."""

    def __init__(self, port, request):
        self.port, self.request = port, request
        self.latencies, self.failures, self.counting = [], 0, False

    async def run(self, seconds, mark):
        clients = [asyncio.create_task(self.client(number)) for number in range(CONNECTIONS)]
        await asyncio.sleep(WARM_UP_S)
        before, self.counting, began = mark(), True, time.perf_counter()
        await asyncio.sleep(seconds)
        self.counting, elapsed, after = False, time.perf_counter() - began, mark()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        return elapsed, [b - a for a, b in zip(before, after, strict=True)]

    async def client(self, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent = 0
        while True:
            message = self.request(number, sent)
            sent += 1
            began = time.perf_counter()
            writer.write(message)
            status = await self.answer(reader)
            if self.counting:
                self.latencies.append(time.perf_counter() - began)
                self.failures += status not in (200, 202)

    @staticmethod
    async def answer(reader):
        head = await reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at >= 0:
            await reader.readexactly(int(lower[at + 15 : lower.index(b"\r", at)]))
        return int(head[9:12])


def http(method, path, body, *headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def batches(tokens):
    life = secrets.token_hex(8)

    def request(number, sent):
        now, first = time.time_ns() // 1_000_000, sent * EVENTS + 1
        events = ",".join(STEP % (seq, now, 80_000 + seq) for seq in range(first, first + EVENTS))
        body = (
            f'{{"wire":1,"agent":{{"node":"bench-{number:02}","incarnation":"{life}","version":"0.1.0"}},'
            f'"sent_at_ms":{now},"events":[{events}]}}'
        ).encode()
        return http("POST", "/api/v1/ingest", body, f"Authorization: Bearer {tokens[number]}")

    return request


def samples(number, sent):
    body = "".join(f'step_metric_{n}{{run="llama-70b",rank="0"}} {80_000 + sent}\n' for n in range(EVENTS)).encode()
    return http("POST", f"/metrics/job/train/instance/bench-{number:02}", body, "Content-Type: text/plain")


def cpu_s(*pids):
    total = 0.0
    for pid in pids:
        times = psutil.Process(pid).cpu_times()
        total += times.user + times.system
    return total


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nothing listens on port {port}")


def start(stack, argv, **options):
    process = subprocess.Popen(argv, cwd=ROOT, **options)

    def stop():
        process.terminate()
        process.wait(20)

    stack.callback(stop)
    return process


def measure(name, port, request, seconds, mark):
    load = Load(port, request)
    elapsed, used = uvloop.run(load.run(seconds, mark))
    done = len(load.latencies)
    cuts = statistics.quantiles(load.latencies, n=100)
    per_cpu = done / used[0]
    print(
        f"{name:12} {done / elapsed:7.0f} batches/s   {per_cpu:7.0f} batches per server CPU-second   "
        f"p50 {cuts[49] * 1000:6.1f} ms   p99 {cuts[98] * 1000:6.1f} ms   failures {load.failures}"
    )
    return done, used, per_cpu, cuts[98]


def bench_middlewatch(stack, seconds):
    from controlplane.embedded.group import Group
    from controlplane.embedded.home import Home
    from controlplane.embedded.servers import Addresses, start_servers

    home = Path(tempfile.mkdtemp(prefix="mw-bench-"))
    home.chmod(0o711)
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    group = Group(lambda _: None)
    stack.callback(group.close)
    found = start_servers(Home(home), group, Addresses(database_url="", redis_url=""), durable=True, say=print)
    env = {
        "DATABASE_URL": found.database_url, "REDIS_URL": found.redis_url,
        "MIDDLEWATCH_SECRET_KEY": secrets.token_hex(32), "MIDDLEWATCH_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.base",
    }  # fmt: skip
    os.environ.update(env)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, check=True)
    tokens = enrol()
    port = free_port()
    server = start(
        stack,
        [sys.executable, "-m", "uvicorn", "controlplane.ingest.asgi:application", "--port", str(port),
         "--log-level", "warning", "--no-access-log", "--timeout-keep-alive", "75", "--timeout-graceful-shutdown", "1"],
    )  # fmt: skip
    wait_for(port)
    postmaster = psutil.Process(group.pids()["postgres"])

    def mark():
        postgres = [child.pid for child in postmaster.children()]
        return cpu_s(server.pid), cpu_s(postmaster.pid, *postgres)

    return measure("middlewatch", port, batches(tokens), seconds, mark)


def enrol():
    import django

    django.setup()
    from controlplane.events import partitions
    from controlplane.fleet import actions

    now = datetime.now(UTC)
    partitions.maintain(now)
    token = actions.create_enrolment_token("bench", now, CONNECTIONS)
    return [actions.enrol(token, f"bench-{number:02}", now) for number in range(CONNECTIONS)]


def bench_pushgateway(stack, seconds, program):
    port = free_port()
    server = start(
        stack,
        [program, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(port)
    return measure("pushgateway", port, samples, seconds, lambda: (cpu_s(server.pid),))


def pushgateway(stack):
    """Debian's package, unpacked in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="mw-pushgateway-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["apt-get", "download", "prometheus-pushgateway"], **quiet)
    subprocess.run(["dpkg", "-x", next(folder.glob("*.deb")), folder / "root"], **quiet)
    return str(folder / "root/usr/bin/prometheus-pushgateway")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pushgateway", default=shutil.which("prometheus-pushgateway"))
    chosen = parser.parse_args()
    print(f"{CONNECTIONS} connections, batches of {EVENTS} events, {chosen.seconds:g} s each, {os.cpu_count()} cores")
    with ExitStack() as stack:
        done, used, ours, p99 = bench_middlewatch(stack, chosen.seconds)
        print(f"{'':12} PostgreSQL beside it: {used[1] / done * 1e6:.0f} µs of CPU per batch (ingest {used[0] / done * 1e6:.0f} µs)")
    with ExitStack() as stack:
        try:
            program = chosen.pushgateway or pushgateway(stack)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            raise SystemExit(f"no pushgateway to compare with: {error}") from error
        _, _, theirs, _ = bench_pushgateway(stack, chosen.seconds, program)
    print(f"ratio: middlewatch does {ours / theirs:.2f} times pushgateway's batches per server CPU-second")
    met = ours >= 2000 and p99 < 0.150
    print(f"target (2000 batches per server CPU-second, p99 under 150 ms): {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
