"""What changed since the last launch that trained is told once, and training on accepts it."""

from controlplane.domain.detection.environment import difference
from controlplane.domain.detection.launch_intake import MAX_ENTRIES, flat
from controlplane.domain.findings import Stage as Of
from tests.domain.stage import Stage

BEFORE = {"git": "3f1c9ab", "torch": "2.1.2", "driver": "535.183.01", "image": "train-14"}


class Environment(Stage):
    def start(self, fingerprint, *, resume=0):
        self.attempt += 1
        self.send(
            "attempt.started", nodes=self.names, world_size=self.world, resume={"step": resume}, fingerprint=fingerprint
        )
        return self.said()

    def said(self):
        self.sweep()
        return [item for item in self.log if item.detector == "D-15"]

    def saves(self, step):
        self.rank("rank.step", 0, step=step)
        self.rank("checkpoint", 0, step=step, tier="persistent", state="complete")
        return self.said()


def trained():
    stage = Environment()
    stage.start(BEFORE)
    stage.saves(10)
    return stage


def test_the_first_launch_and_the_same_again_say_nothing():
    stage = trained()
    assert stage.start(dict(BEFORE), resume=10) == []


def test_one_minor_version_of_a_package_is_told_with_both_values():
    stage = trained()
    found = stage.start(BEFORE | {"torch": "2.1.3"}, resume=10)[-1]
    assert "torch was 2.1.2 and is 2.1.3" in found.sentence
    assert "attempt 1, the last that trained" in found.sentence
    assert (found.klass, found.stage, found.severity) == ("environment_drift", Of.SUSPECT, "warning")
    assert all(line.weight == 0 for line in found.evidence)


def test_new_code_is_told_more_quietly():
    assert trained().start(BEFORE | {"git": "77aa001"}, resume=10)[-1].severity == "info"


def test_a_launch_that_never_trained_is_no_measure():
    stage = Environment()
    stage.start(BEFORE)
    assert stage.start(BEFORE | {"torch": "2.1.3"}) == []


def test_a_checkpoint_restored_from_is_no_progress():
    stage = Environment()
    stage.start(BEFORE, resume=10)
    stage.saves(10)
    assert stage.start(BEFORE | {"torch": "2.1.3"}, resume=10) == []


def test_a_hundred_steps_or_a_durable_checkpoint_accept_the_change():
    for accept in (lambda stage: stage.rank("rank.step", 0, step=110), lambda stage: stage.saves(11)):
        stage = trained()
        first = stage.start(BEFORE | {"torch": "2.1.3"}, resume=10)
        accept(stage)
        said = stage.said()
        assert (said[-1].stage, said[-1].key) == (Of.CLEARED, first[-1].key)
        assert len(stage.start(BEFORE | {"torch": "2.1.3"}, resume=11)) == 2


def test_launches_with_the_same_change_are_told_once_and_the_old_state_takes_it_back():
    stage = trained()
    stage.start(BEFORE | {"torch": "2.1.3"}, resume=10)
    assert len(stage.start(BEFORE | {"torch": "2.1.3"}, resume=10)) == 1
    said = stage.start(BEFORE, resume=10)
    assert (len(said), said[-1].stage) == (2, Of.CLEARED)
    assert "launched again as attempt 1 was" in said[-1].sentence


def test_what_may_hold_credentials_is_named_and_not_shown():
    stage = Environment()
    stage.start({"env": {"TOKEN": "alpha", "NCCL_DEBUG": "INFO"}})
    stage.saves(10)
    found = stage.start({"env": {"TOKEN": "omega"}}, resume=10)[-1]
    assert "env.TOKEN changed" in found.sentence
    assert "env.NCCL_DEBUG changed" in found.sentence
    assert "alpha" not in str(found)
    assert "omega" not in str(found)


def test_fingerprints_are_flattened_and_bounded():
    assert flat({"git": "a", "packages": {"torch": "2.1", "apex": None}}) == {
        "git": "a", "packages.torch": "2.1", "packages.apex": "None",
    }  # fmt: skip
    assert len(flat({"packages": {str(number): "x" * 10_000 for number in range(5_000)}})) == MAX_ENTRIES
    assert difference({"a": "1", "b": "2"}, {"b": "2", "c": "3"}) == {"a": ("1", ""), "c": ("", "3")}
