"""Real agents and real rank processes, which a test may hurt, and what the control plane knows of them.

Nothing is scripted: the test breaks processes and servers as a machine would, and
asks REST and the tables what became of it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psycopg
import urllib3

from controlplane.demo.client import Client
from controlplane.demo.cluster import AGENT, HEAD, Cluster, Job, kill
from tests.patience import within
from tests.trouble.serving import Serving

TRAINING = ("n01", "n02", "n03")
NODES = (*TRAINING, "n04")
RUNS = tuple(f"story-{number:02}" for number in range(1, 31))
JOB = Job(command=(sys.executable, str(Path(__file__).parent / "job.py")), preload=(), grace_s=0.5)
POLL_S = 0.1
REST_POLL_S = 0.5
"""A page of REST costs the machine, on which the training runs too, what a hundred queries do."""
STEADY_STEPS = 15
OVER = ("stopped", "completed")

# Settings of a run whose steps take a tenth of a second, on a machine that may be busy.
POLICY: dict[str, Any] = {
    "hang_floor_s": 4.0, "delta_s": 0.5, "early_deadline_s": 30.0, "min_samples": 5, "warmup_steps": 1,
    "heartbeat_s": 1.0, "silence_s": 4.0, "silence_hold_s": 4.0, "observe_s": 8.0, "blind_s": 20.0,
    "restart_capacity": 50, "backoff_s": 0.5, "backoff_cap_s": 2.0, "same_failures": 20, "rung_tries": 20,
    "max_share": 1.0,
}  # fmt: skip


def eventually(
    true: Callable[[], Any], why: str | Callable[[], str], limit_s: float = 60.0, poll_s: float = POLL_S
) -> Any:
    """Poll until something is so, and return it; fails with `why` when it never is."""
    deadline = time.monotonic() + within(limit_s)
    while not (found := true()):
        assert time.monotonic() < deadline, why if isinstance(why, str) else why()
        time.sleep(poll_s)
    return found


class Yard:
    """Machines with agents that belong to nobody but the test."""

    def __init__(self, plane: Serving, *, enrol: str, api: str) -> None:
        self.plane, self.home, self.url = plane, plane.home, plane.url
        self.client = Client(self.url, api)
        self.cluster = Cluster(home=self.home, names=NODES, job=JOB)
        self.cluster.enrol(self.url, enrol, *RUNS)
        self.database: psycopg.Connection[Any] | None = None
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._names = iter(RUNS)

    # agents

    def start_agents(self) -> None:
        for name in (HEAD, *NODES):
            self.start_agent(name)
        eventually(self._all_known, "the agents did not say hello")

    def start_agent(self, name: str) -> None:
        self._start(name, self.cluster.argv(name))

    def start_agent_at(self, name: str, state: Path) -> None:
        """Start an agent that keeps its things in a folder of its own, under whatever name stands there."""
        self._start(name, [*AGENT, "run", "--state", str(state)])

    def _start(self, name: str, argv: list[str]) -> None:
        with (self.home / f"agent-{name}.log").open("ab") as log:
            self.agents[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def restart_agent(self, name: str) -> None:
        """Start an agent and wait until its new life holds the name."""
        before = self.newest_life(name)
        self.start_agent(name)
        eventually(lambda: self.newest_life(name) != before, f"{name} did not come back", 30)

    def newest_life(self, name: str) -> str:
        """Return the incarnation that said hello last."""
        query = "SELECT incarnation FROM events_event WHERE node = %s AND kind = 'node.hello' ORDER BY id DESC LIMIT 1"
        return self.rows(query, name)[0][0]

    def make_whole(self) -> None:
        """Start what does not live, control plane or agent; end what still runs; give back nodes that are kept out."""
        if self.plane.process.poll() is not None:
            self.plane.start()
        eventually(self.answers, "the control plane does not answer", 60)
        for name in (HEAD, *NODES):
            agent = self.agents[name]
            if agent.poll() is None:
                agent.send_signal(signal.SIGCONT)
            else:
                self.restart_agent(name)
        for run in self.client.get("/runs?limit=100")["items"]:
            if run["state"] not in OVER:
                self.client.post(f"/runs/{run['name']}/stop")
        eventually(self._all_ended, "an attempt of an earlier story does not end", 60)
        for node in self.client.get("/nodes?limit=100")["items"]:
            if node["state"] == "quarantined":
                self.client.post(f"/nodes/{node['name']}/release")

    def _all_ended(self) -> bool:
        return not self.rows("SELECT 1 FROM runs_attempt WHERE state <> 'exited'")

    def answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/readyz", retries=False, timeout=5).status == HTTPStatus.OK
        except urllib3.exceptions.HTTPError:
            return False

    def kill_agent(self, name: str) -> None:
        self.agents[name].kill()
        self.agents[name].wait(10)

    def _all_known(self) -> bool:
        rows = self.client.get("/nodes?limit=100")["items"]
        return {row["name"] for row in rows if row["state"] != "unknown"} >= {HEAD, *NODES}

    def close(self) -> None:
        for agent in self.agents.values():
            agent.terminate()
        for agent in self.agents.values():
            agent.wait(20)
        self.cluster.end_training()
        if self.database:
            self.database.close()

    # runs

    def launch(self) -> "Story":
        """Launch a run that nobody used before, and wait until it trains."""
        story = self.begin()
        story.trains()
        return story

    def begin(self) -> "Story":
        """Launch a run that nobody used before."""
        story = Story(self, next(self._names))
        self.client.post("/runs", name=story.run, launcher=HEAD, nodes_wanted=len(TRAINING), policy=POLICY)
        self.client.post(f"/runs/{story.run}/launch", nodes=list(TRAINING))
        return story

    # what the database holds

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask over one connection; the server may have been away, or be at another address by now."""
        try:
            return self._connected().execute(query, values).fetchall()
        except psycopg.OperationalError:
            self.database = None
            return self._connected().execute(query, values).fetchall()

    def _connected(self) -> psycopg.Connection[Any]:
        self.database = self.database or psycopg.connect(self.plane.database_url, autocommit=True)
        return self.database


class Story:
    """One run and what becomes of it."""

    def __init__(self, yard: Yard, run: str) -> None:
        self.yard, self.run, self.client = yard, run, yard.client

    def state(self) -> dict[str, Any]:
        return self.client.get(f"/runs/{self.run}")

    def attempt(self) -> dict[str, Any]:
        return self.client.get(f"/runs/{self.run}/attempts?limit=1")["items"][0]

    def trains(self, steps: int = STEADY_STEPS) -> None:
        """Wait until the newest attempt has made `steps` steps and has a checkpoint to go back to."""

        def steady() -> bool:
            attempt = self.attempt()
            done = attempt["last_step"] is not None and attempt["last_step"] - attempt["resume_step"] >= steps
            return done and self.state()["state"] == "running"

        eventually(steady, lambda: f"{self.run} does not train:\n{self.told()}", poll_s=REST_POLL_S)

    def goes_on(self) -> None:
        """Wait until training is twenty steps further than it was when asked."""
        mark = self.state()["high_water_step"]

        def further() -> bool:
            return self.state()["high_water_step"] >= mark + 20

        eventually(further, lambda: f"no progress:\n{self.told()}", poll_s=REST_POLL_S)

    def rank(self, number: int) -> int:
        """Return the pid of a living rank of this run."""
        found = eventually(lambda: [one for one in self.ranks() if one[0] == number], f"rank {number} does not run")
        return found[0][1]

    def ranks(self) -> list[tuple[int, int]]:
        return [(one.rank, one.pid) for one in self.yard.cluster.ranks() if _run_of(one.pid) == self.run]

    def kill_rank(self, number: int) -> None:
        os.kill(self.rank(number), signal.SIGKILL)

    def incidents(self) -> list[dict[str, Any]]:
        rows = self.client.get(f"/incidents?run={self.run}&limit=50")["items"]
        return [self.client.get(f"/incidents/{row['id']}") for row in reversed(rows)]

    def recovers(self, *, incidents: int = 1, limit_s: float = 90.0) -> dict[str, Any]:
        """Wait until the newest of so many incidents is over and training is beyond where it was."""

        def over() -> dict[str, Any] | None:
            found = self.incidents()
            if len(found) < incidents or not found[-1]["mitigated_at"]:
                return None
            return found[-1] if not self.unfinished() else None

        incident = eventually(over, lambda: f"no recovery:\n{self.told()}", limit_s, poll_s=REST_POLL_S)
        self.trains(steps=1)
        return incident

    def unfinished(self) -> list[int]:
        query = """SELECT e.id FROM runbooks_execution e JOIN runs_run r ON r.id = e.run_id
                   WHERE r.name = %s AND e.finished_at IS NULL"""
        return [row[0] for row in self.yard.rows(query, self.run)]

    def steps(self, attempt: int) -> list[int]:
        """Return the steps of an attempt in the order in which the event log took them."""
        query = """SELECT (data->>'step')::int FROM events_event
                   WHERE run = %s AND attempt = %s AND kind = 'rank.step' ORDER BY id"""
        return [row[0] for row in self.yard.rows(query, self.run, attempt)]

    def commands(self, kind: str) -> list[int]:
        """Return the attempt that each command of a kind was about."""
        query = "SELECT (args->>'attempt')::int FROM fleet_command WHERE kind = %s AND args->>'run' = %s ORDER BY 1"
        return [row[0] for row in self.yard.rows(query, kind, self.run)]

    def told(self) -> str:
        """Return all chronicles of the run, for the message of a test that fails."""
        query = """SELECT s.name, e.happened_at, e.kind, e.sentence FROM chronicle_entry e
                   JOIN chronicle_stream s ON s.id = e.stream_id
                   WHERE s.name = %s OR s.name = 'fleet' OR s.name LIKE 'incident:%%' ORDER BY e.id DESC LIMIT 60"""
        return "\n".join(f"{at:%H:%M:%S} {name} {kind}: {text}" for name, at, kind, text in
                         reversed(self.yard.rows(query, f"run:{self.run}")))  # fmt: skip

    def stop(self) -> None:
        """Stop the run for good and wait until its processes are gone and its nodes are free."""
        self.client.post(f"/runs/{self.run}/stop")
        self.is_over()

    def is_over(self) -> None:
        try:
            eventually(lambda: self.attempt()["state"] == "exited", "the attempt outlived the stop", 30.0)
            eventually(lambda: not self.ranks(), "ranks outlived the stop", 20.0)
        finally:
            kill([pid for _, pid in self.ranks()])


def _run_of(pid: int) -> str:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((pair.partition(b"=")[2].decode() for pair in pairs if pair.startswith(b"MIDDLEWATCH_RUN=")), "")


def batch(node: str, incarnation: str, events: list[dict[str, Any]], *, sent_at_ms: int | None = None) -> bytes:
    """Return the body of a batch as an agent would send it."""
    now_ms = time.time_ns() // 1_000_000
    agent = {"node": node, "incarnation": incarnation, "version": "0.1.0"}
    return json.dumps({"wire": 1, "agent": agent, "sent_at_ms": sent_at_ms or now_ms, "events": events}).encode()
