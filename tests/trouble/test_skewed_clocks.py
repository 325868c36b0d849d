"""Events whose clock is an hour off: received order is what counts, so nothing is judged by a wrong clock."""

import time

import pytest

from tests.trouble.test_two_under_one_name import Twin
from tests.trouble.world import HEAD, TRAINING, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]

HOUR_MS = 3_600_000


class Skewed(Twin):
    """The agent of a node with a wrong clock; it says hello as the same machine and so takes over."""

    def __init__(self, yard, node, skew_ms):
        super().__init__(yard.url, node, (yard.cluster.state(node) / "token").read_text().strip())
        self.skew_ms = skew_ms
        known = yard.client.get(f"/nodes/{node}")
        self.machine = yard.rows("SELECT hardware FROM fleet_node WHERE name = %s", known["name"])[0][0]
        self.capabilities = yard.rows("SELECT capabilities FROM fleet_node WHERE name = %s", node)[0][0]

    def hello(self):
        return self.event("node.hello", hostname="x", hardware=self.machine, capabilities=self.capabilities)

    def event(self, kind, *, run=None, attempt=None, rank=None, **data):
        self.seq += 1
        at_ms = time.time_ns() // 1_000_000 + self.skew_ms
        about = {"run": run, "attempt": attempt, "rank": rank}
        known = {key: value for key, value in about.items() if value is not None}
        return self.post([{"seq": self.seq, "at_ms": at_ms, "kind": kind, "data": data, **known}])


@pytest.fixture
def scripted(yard):
    """A launched run whose agents are dead: the test speaks for them."""
    for name in (*TRAINING, HEAD):
        yard.kill_agent(name)
    run = yard.begin()
    yield run
    run.client.post(f"/runs/{run.run}/stop")
    for name in (*TRAINING, HEAD):
        yard.start_agent(name)
    run.is_over()


@pytest.mark.parametrize("skew_ms", [-HOUR_MS, HOUR_MS], ids=["an hour behind", "an hour ahead"])
def test_a_run_whose_first_rank_has_a_wrong_clock_is_not_found_hanging(yard, scripted, skew_ms):
    run = scripted.run
    agents = [Skewed(yard, name, skew_ms if name == "n01" else 0) for name in (*TRAINING, HEAD)]
    first, head = agents[0], agents[-1]
    for agent in agents:
        assert agent.hello()[0] == 200
    head.event("attempt.started", run=run, attempt=1, job_id="1", scheduler="local", nodes=list(TRAINING), world_size=3)
    for number, agent in enumerate(agents[:3]):
        agent.event("rank.started", run=run, attempt=1, rank=number, node=agent.node, local_rank=0, pid=1)
    for step in range(1, 81):
        first.event("rank.step", run=run, attempt=1, rank=0, step=step, duration_ms=100, tokens=1)
        if step % 8 == 0:
            for agent in agents:
                assert agent.event("node.heartbeat", uptime_s=1.0)[0] == 200
        time.sleep(0.1)
    assert scripted.incidents() == []
    eventually(lambda: scripted.attempt()["last_step"] == 80, "steps with a wrong clock were not counted", 10)
    first.event("rank.exited", run=run, attempt=1, rank=0, exit_code=None, signal=9)
    found = eventually(scripted.incidents, "a death told by a wrong clock was not seen", 20)
    assert (found[0]["class"], found[0]["attempt"]) == ("crash", 1)
