"""How long a command takes from its commit to its agent, with 1,000 agents on the long poll.

    python bench/commands.py [--agents 1000] [--times 300] [--rate 20] [--burst 500]

A whole control plane runs, with its worker. Each stand-in agent keeps one connection and asks for commands
as the real one does, each under its own token. Commands are sent by the product's own call, from a process of
their own connection; measured is from the return of that call, which is after the commit, to the moment at
which the answer has been read. First single commands to agents by turns, then one to each of `--burst` agents
in one transaction, as the collection of stacks from a large attempt sends them.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from controlplane.embedded.plane import ControlPlane  # noqa: E402

ALLOWED_S = 0.5
ALLOWED_BURST_S = 3.0
WAIT_S = 25
GIVE_UP_S = 30.0
SETTLE_S = 2.0
LOOK_S = 0.01
COLLECT = {"run": "bench", "attempt": 1, "what": ["stacks"], "budget_s": 2.7}

Send = Callable[[str, str], str]
"""Sends a command to a node under a key and gives its id once it is committed."""


class Agent:
    """One node's long poll."""

    def __init__(self, url: str, node: str, token: str, arrived: dict[str, float]) -> None:
        """Note in `arrived` when a command's answer was read."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        path = f"/api/v1/commands?wait_s={WAIT_S}&incarnation={node}-life"
        self._request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        self._arrived = arrived

    async def poll(self) -> None:
        """Ask again and again, on a connection that is kept."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
                while True:
                    writer.write(self._request)
                    self._take(await answer(reader))
            except (OSError, EOFError):
                await asyncio.sleep(0.2)

    def _take(self, body: bytes) -> None:
        now = time.perf_counter()
        for command in json.loads(body).get("commands", []):
            self._arrived.setdefault(command["command_id"], now)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer and give its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    if " 200 " not in head.partition("\r\n")[0]:
        raise SystemExit(f"the control plane answered {head.partition(chr(13))[0]}")
    length = next(int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length:"))
    return await reader.readexactly(length)


def enrol(count: int) -> tuple[list[tuple[str, str]], Send]:
    """Enrol nodes and give their names and tokens, and the call that sends."""
    import django  # noqa: PLC0415 - the settings come from the plane that was started

    django.setup()
    from controlplane.fleet import actions as fleet  # noqa: PLC0415

    now = datetime.now(UTC)
    ticket = fleet.create_enrolment_token("bench", now, uses=count)
    nodes = [(name, fleet.enrol(ticket, name, now)) for name in (f"n{number:04}" for number in range(count))]

    def send(node: str, key: str) -> str:
        now = datetime.now(UTC)
        deadline = now + timedelta(seconds=60)
        return str(fleet.send_command(node, "collect", COLLECT, key=key, deadline=deadline, now=now).pk)

    return nodes, send


async def timed(send: Send, node: str, key: str, arrived: dict[str, float]) -> float:
    """Send one command and give the seconds to its arrival."""
    command_id = await asyncio.to_thread(send, node, key)
    committed = time.perf_counter()
    while command_id not in arrived:
        if time.perf_counter() - committed > GIVE_UP_S:
            return GIVE_UP_S
        await asyncio.sleep(0.002)
    return max(0.0, arrived[command_id] - committed)


async def at_rate(times: int, rate: float, one: Callable[[int], Awaitable[float]]) -> list[float]:
    """Begin one measurement after the other, evenly."""
    began, tasks = time.monotonic(), []
    for number in range(times):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        tasks.append(asyncio.ensure_future(one(number)))
    return list(await asyncio.gather(*tasks))


async def measure(url: str, args: argparse.Namespace) -> None:
    """Let the agents wait, then send."""
    nodes, send = await asyncio.to_thread(enrol, args.agents)
    arrived: dict[str, float] = {}
    polls = [asyncio.ensure_future(Agent(url, name, token, arrived).poll()) for name, token in nodes]
    await asyncio.sleep(SETTLE_S + args.agents / 500)
    stride = max(1, args.agents // args.times)
    single = await at_rate(
        args.times, args.rate, lambda n: timed(send, nodes[n * stride % args.agents][0], f"single:{n}", arrived)
    )
    show(f"{args.times} commands at {args.rate:g} a second (allowed: p95 {ALLOWED_S * 1000:.0f} ms)", single)
    await asyncio.sleep(SETTLE_S)
    ids, committed = await asyncio.to_thread(together, send, [name for name, _ in nodes[: args.burst]])
    await all_of(ids, arrived)
    show(
        f"{len(ids)} commands at once (allowed: slowest {ALLOWED_BURST_S:g} s)",
        [arrived.get(one, committed + GIVE_UP_S) - committed for one in ids],
    )
    for poll in polls:
        poll.cancel()


def together(send: Send, nodes: list[str]) -> tuple[list[str], float]:
    """Send a command to each node in one transaction and give their ids and the moment of the commit."""
    from django.db import transaction  # noqa: PLC0415

    with transaction.atomic():
        ids = [send(node, f"burst:{node}") for node in nodes]
    return ids, time.perf_counter()


async def all_of(ids: list[str], arrived: dict[str, float]) -> None:
    """Wait until all have arrived, or long enough."""
    for _ in range(round(GIVE_UP_S / LOOK_S)):
        if all(one in arrived for one in ids):
            return
        await asyncio.sleep(LOOK_S)


def show(what: str, found: list[float]) -> None:
    """Print a line of figures."""
    found = sorted(max(0.0, seconds) for seconds in found)
    p95 = found[min(len(found) - 1, round(0.95 * len(found)))]
    median, slowest = statistics.median(found), found[-1]
    print(
        f"{what}: median {median * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, slowest {slowest * 1000:.0f} ms", flush=True
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--burst", type=int, default=500)
    args = parser.parse_args()
    print(f"{args.agents} agents on the long poll, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="mw-bench-") as folder:
        Path(folder).chmod(0o711)
        with ControlPlane(Path(folder) / "home", database_url="", redis_url="", say=lambda _: None) as plane:
            os.environ.update(plane.environment)
            asyncio.run(measure(plane.url, args))


if __name__ == "__main__":
    main()
