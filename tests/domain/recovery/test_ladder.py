"""The tests of methods 8: a fault that comes back is not answered for ever."""

from collections import Counter

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.recovery.guards import TokenBucket, may_move_again
from controlplane.domain.recovery.holds import RunFacts
from tests.domain.recovery.shelf import choose

POLICY = RunPolicy()
HOUR_S = 3600.0


def crash(now, fingerprint):
    finding = Finding(
        key="k", detector="D-03", klass="crash", stage=Stage.CONFIRMED, entity="rank:2", began=now, at=now,
        run="demo", attempt=1, sentence="rank 2 died", facts={"fingerprint": fingerprint},
    )  # fmt: skip
    return diagnose([finding], now=now, policy=POLICY)


class Loop:
    """A run that dies a minute after each launch; `durable` says that each launch saves first."""

    def __init__(self, fingerprints, *, durable):
        self.fingerprints, self.durable = fingerprints, durable
        self.now, self.bucket = 0.0, TokenBucket.full(POLICY, 0.0)
        self.launched, self.since = [], []

    def decide(self, number):
        found = crash(self.now, self.fingerprints[number])
        facts = RunFacts(
            now=self.now, mode="autopilot", state="running", nodes=tuple(f"n{i}" for i in range(16)),
            bucket=self.bucket, exited=True, fruitless=len(self.since),
            same_failures=sum(name == found.fingerprint for _, name in self.since),
            tries=Counter(rung for rung, _ in self.since),
            last_restart_at=self.launched[-1] if self.launched else None,
        )  # fmt: skip
        return found, choose(found, facts, POLICY)

    def run(self):
        for number in range(len(self.fingerprints)):
            found, decision = self.decide(number)
            while decision.waits:
                self.now = decision.not_before
                found, decision = self.decide(number)
            if not decision.starts:
                return decision.held_by
            _, self.bucket = self.bucket.take(self.now)
            self.launched.append(self.now)
            self.since = [] if self.durable else [*self.since, (decision.rung, found.fingerprint)]
            self.now += 60.0
        return None


def test_a_hundred_crashes_that_each_save_first_cost_at_most_seven_launches_in_the_first_hour():
    loop = Loop([f"error {i}" for i in range(100)], durable=True)
    assert loop.run() == "bucket"
    assert sum(at < HOUR_S for at in loop.launched) <= 7


def test_a_hundred_crashes_without_progress_stop_by_rule_after_two_launches():
    loop = Loop([f"error {i}" for i in range(100)], durable=False)
    assert loop.run() == "ladder"
    assert len(loop.launched) == POLICY.rung_tries


def test_the_second_equal_failure_without_progress_is_a_persons():
    loop = Loop(["AssertionError"] * 100, durable=False)
    assert loop.run() == "repeat"
    assert len(loop.launched) == 1


def test_a_node_rests_ten_minutes_between_moves_of_automation_unless_a_fresh_fatal_fault_comes():
    words = {"moved_at": 0.0, "by_person": False, "fatal": False, "policy": POLICY}
    assert not may_move_again(now=599.0, **words)
    assert may_move_again(now=600.0, **words)
    assert may_move_again(now=1.0, **{**words, "fatal": True})
    assert may_move_again(now=1.0, **{**words, "by_person": True})
