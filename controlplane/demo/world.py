"""The world of the demonstration: a control plane, an agent on each node and on the head node, and one run."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from controlplane.demo import warden
from controlplane.demo.client import Client
from controlplane.demo.cluster import HEAD, HEARTBEAT_S, Cluster, Job
from controlplane.demo.faults import FAULTS, Fault
from controlplane.demo.narrator import Narrator
from controlplane.demo.report import FaultReport
from controlplane.demo.site import LOCAL, Site
from controlplane.demo.story import POLL_S, Story
from controlplane.embedded.plane import ControlPlane

RUN = "tiny-transformer"

# Ordinary settings of a run, as its owner would choose them for steps of a fraction of a second.
POLICY: dict[str, Any] = {
    "hang_floor_s": 5.0,
    "delta_s": 1.0,
    "early_deadline_s": 30.0,
    "min_samples": 10,
    "heartbeat_s": HEARTBEAT_S,
    "silence_s": 4.0,
    "silence_hold_s": 4.0,
    "observe_s": 5.0,
    "slow_least_s": 5.0,
    "probe_slow_ms": 1500.0,
    "blast_window_s": 15.0,
    "no_exit_local_s": 8.0,
    "restart_capacity": 10,
    "backoff_s": 2.0,
}


@dataclass(kw_only=True)
class World:
    """What `opened` brings up."""

    home: Path
    narrator: Narrator
    plane: ControlPlane
    cluster: Cluster
    client: Client
    site: Site = LOCAL

    @classmethod
    @contextmanager
    def opened(
        cls, home: Path, narrator: Narrator, *, port: int | None = None, job: Job | None = None, site: Site = LOCAL
    ) -> Iterator[Self]:
        """Bring everything up in `home`, and leave nothing of it; `job` is what the ranks do.

        Raises:
            CannotStart: a part is not installed or does not come up.
        """
        narrator.say(f"starting PostgreSQL, Valkey, web, worker and beat; ranks are started by {site.starter}")
        with (
            warden.over(home),
            site.opened(home) as launcher,
            ControlPlane(
                home / "control", port=port, database_url="", redis_url="", passing=True, say=narrator.say
            ) as plane,
        ):
            told = json.loads(plane.manage("welcome", "--link"))
            narrator.say(f"open {told['link']}  (signs you in, once)")
            client = Client(plane.url, plane.manage("api-token", told["name"], "demo").strip())
            job = job or Job(preload=site.preload)
            cluster = Cluster(home=home, names=site.nodes, job=job, launcher=launcher)
            cluster.enrol(plane.url, told["token"], RUN)
            cluster.start(plane)
            world = cls(home=home, narrator=narrator, plane=plane, cluster=cluster, client=client, site=site)
            world.launch()
            try:
                yield world
            finally:
                narrator.say("taking everything down")
                cluster.end_training()

    def launch(self) -> None:
        """Create the run and start it on the first nodes."""
        story, names = self.story(), self.site.nodes
        training, spares = names[: self.site.training], names[self.site.training :]
        story.agents_up((HEAD, *names))
        self.narrator.say(f"{len(names)} node agents and the launcher have said hello")
        policy = {**POLICY, **self.site.policy}
        self.client.post("/runs", name=RUN, launcher=HEAD, nodes_wanted=len(training), policy=policy)
        self.client.post(f"/runs/{RUN}/launch", nodes=list(training))
        self.narrator.say(f"run {RUN} launched on {', '.join(training)}; spares: {', '.join(spares)}")

    def play(self, faults: Sequence[Fault]) -> list[FaultReport]:
        """Hurt the run by each fault in turn."""
        story = self.story()
        story.first_steps()
        rows = []
        for number, fault in enumerate(faults):
            story.steady(fault.steady_steps)
            rows.append(story.suffer(fault, self.site.victims[number % len(self.site.victims)]))
        return rows

    def story(self, poll_s: float = POLL_S) -> Story:
        """Return the teller of this world's run."""
        return Story(client=self.client, cluster=self.cluster, narrator=self.narrator, run=RUN, poll_s=poll_s)

    def goodput(self) -> float:
        """Return the share of the time since the first launch that went into steps which count."""
        share: float = self.client.get(f"/runs/{RUN}/goodput")["goodput"]
        return share

    def chronicle(self) -> str:
        """Return the chronicles of all incidents as one Markdown text, oldest first."""
        rows = self.client.get(f"/incidents?run={RUN}&limit=50")["items"]
        return "\n\n".join(self.client.text(f"/incidents/{row['id']}/chronicle.md") for row in reversed(rows))

    def tell_how_to_hurt(self) -> None:
        """Say how to go on by hand."""
        self.narrator.chapter("The run goes on. Hurt it yourself from another terminal")
        for fault in filter(self.site.knows, FAULTS.values()):
            self.narrator.block(f"    .venv/bin/python manage.py hurt {fault.kind} {self.home}")
        self.narrator.block(f"  Pages: {self.plane.url}   Ctrl-C ends it.")
