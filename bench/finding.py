"""How long a finding takes from the commit of its event, while 500 events a second arrive.

    python bench/finding.py [--times 40] [--rate 500]

A whole control plane runs, with its worker. Stand-in agents of a run of 40 nodes send heartbeats and steps
at the given rate; on four other nodes one run after another is launched and a rank of it reports that it
died; it is stopped before the next one begins. Measured is from the acknowledgement of
that batch, which is sent after its commit, to the moment at which another connection sees the finding.
The runs are in the mode `watch`, so that no runbook takes part.
"""

import argparse
import itertools
import json
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402
import urllib3  # noqa: E402
from middlewatch_wire import AgentIdentity, Batch, encode_batch, make_event  # noqa: E402

from controlplane.demo.client import Client  # noqa: E402
from controlplane.embedded.plane import ControlPlane  # noqa: E402

ALLOWED_S = 1.0
NODES = 4
LOADING = 40
BATCH = 20
POLL_S = 0.005
GIVE_UP_S = 30.0
FOUND = """
    SELECT count(*) FROM incidents_finding AS finding
    JOIN incidents_incident AS incident ON incident.id = finding.incident_id
    JOIN runs_run AS run ON run.id = incident.run_id
    WHERE run.name = %s AND finding.stage = 'confirmed'
"""


class Agent:
    """Speaks for one node by HTTP, as an agent does."""

    def __init__(self, plane: ControlPlane, node: str, enrol: str) -> None:
        """Buy a token for `node` and say hello."""
        self.node, self._url, self._pool = node, plane.url, urllib3.PoolManager(timeout=30)
        self._token = self._post("/api/v1/enrol", json.dumps({"token": enrol, "node": node}).encode(), "")["token"]
        self._identity = AgentIdentity(node=node, incarnation=secrets.token_hex(8))
        self._seq = itertools.count(1)
        self._lock = threading.Lock()
        self.say(("node.hello", None, None, {"hostname": node, "hardware": {"machine_id": node}}))

    def say(self, *events: tuple[str, str | None, int | None, dict[str, Any]]) -> None:
        """Send one batch of (kind, run, rank, data) and wait for its acknowledgement."""
        now_ms = round(time.time() * 1000)
        with self._lock:
            made = [
                make_event(
                    kind, at_ms=now_ms, seq=next(self._seq), run=run, attempt=1 if run else None, rank=rank, **data
                )
                for kind, run, rank, data in events
            ]
            self._post(
                "/api/v1/ingest", encode_batch(Batch(agent=self._identity, sent_at_ms=now_ms, events=made)), self._token
            )

    def _post(self, path: str, body: bytes, token: str) -> Any:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        answer = self._pool.request("POST", self._url + path, body=body, headers=headers)
        return json.loads(answer.data)


def begin(client: Client, head: Agent, agents: list[Agent], run: str) -> None:
    """Create a run in the mode watch and show its attempt, its ranks and some steps."""
    client.post("/runs", name=run, launcher=head.node, nodes_wanted=len(agents), mode="watch")
    nodes = [agent.node for agent in agents]
    head.say(("attempt.started", run, None, {"scheduler": "slurm", "nodes": nodes, "world_size": len(nodes)}))
    for rank, agent in enumerate(agents):
        agent.say(("rank.started", run, rank, {"node": agent.node, "local_rank": 0, "pid": 1000 + rank}))
    for number in range(1, 6):
        agents[0].say(("rank.step", run, 0, {"step": number, "duration_ms": 1000}))


def load(agents: list[Agent], run: str, rate: float, ended: threading.Event) -> None:
    """Send heartbeats and steps at `rate` events a second in all until told to end."""
    steps, began = itertools.count(6), time.monotonic()
    for number in itertools.count():
        if ended.wait(max(0.0, began + number * BATCH / rate - time.monotonic())):
            return
        beats = [("node.heartbeat", None, None, {"uptime_s": number})] * (BATCH - 1)
        agents[number % len(agents)].say(*beats)
        agents[0].say(("rank.step", run, 0, {"step": next(steps), "duration_ms": 1000}))


def measure(plane: ControlPlane, times: int, rate: float) -> Iterator[float]:
    """Let a rank die `times` times and time its finding."""
    told = json.loads(plane.manage("welcome", "--link"))
    client = Client(plane.url, plane.manage("api-token", told["name"], "bench").strip())
    head = Agent(plane, "head", told["token"])
    agents = [Agent(plane, f"n{number:02}", told["token"]) for number in range(NODES)]
    busy = [Agent(plane, f"b{number:02}", told["token"]) for number in range(LOADING)]
    begin(client, head, busy, "steady")
    ended = threading.Event()
    loading = threading.Thread(target=load, args=(busy, "steady", rate, ended), daemon=True)
    loading.start()
    try:
        for number in range(times):
            run = f"dies-{number:03}"
            begin(client, head, agents, run)
            time.sleep(1.0)
            error = {"type": "RuntimeError", "message": "CUDA error"}
            agents[1].say(("rank.exited", run, 1, {"exit_code": 1, "error": error}))
            yield seen(plane.database_url, run)
            head.say(("attempt.exited", run, None, {"reason": "failed", "exit_code": 1}))
            client.post(f"/runs/{run}/stop")
    finally:
        ended.set()
        loading.join(10)


def seen(database_url: str, run: str) -> float:
    """Seconds until another connection sees the run's finding."""
    began = time.monotonic()
    with psycopg.connect(database_url, autocommit=True) as connection:
        while time.monotonic() - began < GIVE_UP_S:
            row = connection.execute(FOUND, [run]).fetchone()
            if row and row[0]:
                return time.monotonic() - began
            time.sleep(POLL_S)
    return GIVE_UP_S


def main() -> None:
    """Print the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--rate", type=float, default=500.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mw-bench-") as folder:
        Path(folder).chmod(0o711)
        with ControlPlane(Path(folder) / "home", database_url="", redis_url="", say=lambda _: None) as plane:
            found = sorted(measure(plane, args.times, args.rate))
    p95 = found[min(len(found) - 1, round(0.95 * len(found)))]
    print(
        f"commit of an event to its finding, {args.rate:.0f} events/s arriving: "
        f"median {statistics.median(found):.3f} s, p95 {p95:.3f} s of {len(found)} (allowed {ALLOWED_S:g})"
    )


if __name__ == "__main__":
    main()
