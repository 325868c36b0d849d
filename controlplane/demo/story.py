"""Hurt the run, watch it recover, and measure: one chapter for each fault."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.demo.client import Client
from controlplane.demo.cluster import Cluster, RankProcess
from controlplane.demo.faults import Fault
from controlplane.demo.narrator import Narrator
from controlplane.demo.report import FaultReport
from controlplane.domain.errors import MiddlewatchError

POLL_S = 0.5
"""Each look costs the machine, on which the training runs too, several pages of REST."""
AGENTS_LIMIT_S = 30.0
FIRST_STEP_LIMIT_S = 120.0
RECOVERY_LIMIT_S = 120.0
PERSON = "person"
STEADY_STEPS = 30
"""What the hang rule needs before it trusts its median."""


class Failed(MiddlewatchError):
    """The run did not come to where it should be in time."""

    code = "demo_failed"


@dataclass(kw_only=True)
class Story:
    """Tells the demonstration through the product's own REST API, looking at it every `poll_s` seconds."""

    client: Client
    cluster: Cluster
    narrator: Narrator
    run: str
    poll_s: float = POLL_S

    def agents_up(self, names: Sequence[str]) -> None:
        """Wait until every agent has said hello."""
        self._wait(lambda: self._known() >= set(names), AGENTS_LIMIT_S, "the agents to say hello")

    def first_steps(self) -> None:
        """Wait until the run trains and has something to restore."""
        self._wait(lambda: self._run()["high_water_step"] > 0, FIRST_STEP_LIMIT_S, "the first step")
        self.narrator.say(f"the run trains: step {self._run()['high_water_step']}")
        self.steady()

    def steady(self, steps: int = STEADY_STEPS) -> None:
        """Wait until this attempt has a checkpoint of its own, `steps` to judge by, and no trouble open."""
        self._wait(lambda: self._is_steady(steps), FIRST_STEP_LIMIT_S, "a fresh checkpoint and a steady pace")

    def suffer(self, fault: Fault, rank: int) -> FaultReport:
        """Hurt the run by `fault` and follow the recovery to its end."""
        victim = self._victim(rank)
        known = self._newest_incident()
        spread = {"rank": victim.rank, "node": victim.node, "pid": victim.pid}
        self.narrator.chapter(fault.sentence.format(**spread))
        began = time.time()
        fault.hurt(self.cluster, victim)
        incident = self._follow(fault, known, began)
        return self._measure(fault, incident, began)

    def _victim(self, rank: int) -> RankProcess:
        for process in self.cluster.ranks():
            if process.rank == rank:
                return process
        raise Failed(f"rank {rank} does not run")

    def _follow(self, fault: Fault, known: int, began: float) -> dict[str, Any] | None:
        """Repeat the chronicle as it grows, until the run makes new steps or time is up; heal what needs it."""
        limit = time.monotonic() + RECOVERY_LIMIT_S
        heard, sick = 0, fault.heals_after_s is not None
        while time.monotonic() < limit:
            if sick and time.time() - began >= (fault.heals_after_s or 0.0):
                fault.heal(self.cluster)
                self.narrator.told(time.time() - began, "(the demonstration ends its fault)")
                sick = False
            incident = self._incident_of(fault, known)
            if incident:
                heard = self._repeat(incident["id"], heard, began)
                if self._is_over(incident) and not sick:
                    self._repeat(incident["id"], heard, began)
                    return self._incident(incident["id"])
            self.narrator.status(f"{time.time() - began:.0f} s since the fault, step {self._run()['high_water_step']}")
            time.sleep(self.poll_s)
        found = self._incident_of(fault, known)
        return self._incident(found["id"]) if found else None

    def _is_over(self, incident: dict[str, Any]) -> bool:
        return bool(incident["mitigated_at"] or incident["resolved_at"]) and not self._executes(incident)

    def _incident_of(self, fault: Fault, known: int) -> dict[str, Any] | None:
        """Return the fault's own incident if there is one, else the first that came after it."""
        later = sorted((row for row in self._incidents() if row["id"] > known), key=lambda row: row["id"])
        return next((row for row in later if row["class"] == fault.klass), later[0] if later else None)

    def _repeat(self, incident: int, heard: int, began: float) -> int:
        for entry in self._chronicle(incident, heard):
            self.narrator.told(_epoch(entry["happened_at"]) - began, entry["sentence"])
            heard = entry["number"]
        return heard

    def _measure(self, fault: Fault, incident: dict[str, Any] | None, began: float) -> FaultReport:
        if incident is None:
            return FaultReport(
                kind=fault.kind, klass="", detected_s=None, decided_s=None, resumed_s=None, steps_lost=None,
                unattended=False,
            )  # fmt: skip
        actors = {entry["actor_kind"] for entry in self._chronicle(incident["id"], 0)}
        return FaultReport(
            kind=fault.kind,
            klass=incident["class"],
            detected_s=_since(incident["opened_at"], began),
            decided_s=_since(incident["decided_at"], began),
            resumed_s=_since(incident["mitigated_at"] or incident["resolved_at"], began),
            steps_lost=incident["losses"].get("steps"),
            unattended=PERSON not in actors,
        )

    def _is_steady(self, steps: int) -> bool:
        run = self._run()
        attempt = self.client.get(f"/runs/{self.run}/attempts?limit=1")["items"][0]
        if attempt["last_step"] is None or attempt["last_step"] - attempt["resume_step"] < steps:
            return False
        if any(row["state"] != "resolved" for row in self._incidents()):
            return False
        saved = self.client.get(f"/runs/{self.run}/checkpoints?limit=5")["items"]
        return any(row["attempt"] == run["attempt"] and row["state"] in ("complete", "verified") for row in saved)

    def _known(self) -> set[str]:
        rows = self.client.get("/nodes?limit=100")["items"]
        return {row["name"] for row in rows if row["state"] != "unknown"}

    def _run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/runs/{self.run}")
        return found

    def _incidents(self) -> Sequence[dict[str, Any]]:
        rows: Sequence[dict[str, Any]] = self.client.get(f"/incidents?run={self.run}&limit=50")["items"]
        return rows

    def _newest_incident(self) -> int:
        return max((row["id"] for row in self._incidents()), default=0)

    def _incident(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/incidents/{number}")
        return found

    def _executes(self, incident: dict[str, Any]) -> bool:
        numbers = self._incident(incident["id"])["executions"]
        return any(self.client.get(f"/executions/{number}")["finished_at"] is None for number in numbers)

    def _chronicle(self, incident: int, after: int) -> Sequence[dict[str, Any]]:
        rows: Sequence[dict[str, Any]] = self.client.get(f"/incidents/{incident}/chronicle?after={after}")["items"]
        return rows

    def _wait(self, true: Callable[[], bool], limit_s: float, what: str) -> None:
        limit = time.monotonic() + limit_s
        while not true():
            if time.monotonic() > limit:
                raise Failed(f"{what} did not come within {limit_s:.0f} s")
            self.narrator.status(f"waiting for {what}")
            time.sleep(self.poll_s)


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _since(text: str | None, began: float) -> float | None:
    return None if text is None else round(_epoch(text) - began, 2)
