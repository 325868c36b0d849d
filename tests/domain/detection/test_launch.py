"""A launch whose numbers do not add up is told, with the numbers, and nothing is done about it."""

import pytest

from controlplane.domain.findings import Stage as Of
from tests.domain.stage import Stage


class Launch(Stage):
    def start(self, *, resume=0, world=None, **data):
        self.attempt += 1
        self.send("attempt.started", nodes=self.names, world_size=world or self.world, resume={"step": resume}, **data)
        for rank in range(self.world):
            self.rank("rank.started", rank, pid=4000 + rank, groups={"dp": rank, "tp": 0, "pp": 0})
        return self.said()

    def said(self):
        self.sweep()
        return [item for item in self.log if item.detector == "D-16"]


def test_a_launch_that_adds_up_says_nothing():
    stage = Launch(nodes=4)
    sizes = {"count": 7e9, "global_batch": 512, "micro_batch": 2, "dp": 4, "tp": 1, "pp": 1, "gpus_per_node": 1}
    assert stage.start(parameters=sizes) == []
    stage.rank("rank.resume", 0, step=0, world_size=4, parameters=7.01e9)
    assert stage.said() == []


def test_a_declared_count_that_is_not_the_computed_one_names_both():
    stage = Launch()
    stage.start(parameters=104_000_000_000)
    stage.rank("rank.resume", 0, step=0, parameters=58_000_000_000)
    found = stage.said()[-1]
    assert "104 billion parameters were declared and 58 billion counted" in found.sentence
    assert (found.klass, found.stage, found.severity) == ("environment_drift", Of.SUSPECT, "warning")
    assert all(line.weight == 0 for line in found.evidence)


@pytest.mark.parametrize("held", [104e9, 26e9, 52e9])
def test_a_shard_is_no_mismatch(held):
    stage = Launch(nodes=4)
    stage.start(parameters=104e9)
    stage.rank("rank.resume", 0, step=0, parameters=held)
    assert stage.said() == []


def test_the_places_of_a_model_are_added_up_once_all_are_counted():
    stage = Launch(nodes=2)
    stage.attempt = 1
    stage.send("attempt.started", nodes=stage.names, world_size=2, parameters=10_000)
    for rank in range(2):
        stage.rank("rank.started", rank, groups={"dp": 0, "tp": 0, "pp": rank})
    stage.rank("rank.resume", 0, parameters=6_500)
    assert stage.said() == []
    stage.rank("rank.resume", 1, parameters=3_500)
    assert stage.said() == []
    stage.rank("rank.resume", 1, parameters=1_000)
    assert "10000 parameters were declared and 7500 counted" in stage.said()[-1].sentence


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"global_batch": 500, "micro_batch": 3}, "a global batch of 500 is no multiple of a micro batch of 3 times 4"),
        ({"global_batch_size": 510, "micro_batch_size": 4, "dp": 2}, "a global batch of 510"),
        ({"dp": 2, "tp": 4, "pp": 1}, "dp 2 x tp 4 x pp 1 is not the 4 ranks"),
        ({"gpus_per_node": 8}, "4 nodes with 8 GPUs each do not make 4 ranks"),
        ({"nodes": 5}, "5 nodes were declared and 4 are in the attempt"),
        ({"hidden": 1000, "heads": 12}, "a hidden size of 1000 is no multiple of 12 heads"),
    ],
)
def test_declared_sizes_that_contradict_each_other_are_told_in_numbers(sizes, words):
    stage = Launch(nodes=4)
    stage.start(parameters=sizes)
    stage.rank("rank.resume", 0)
    assert words in stage.said()[-1].sentence


def test_a_rank_that_goes_on_from_another_step_or_counts_other_ranks_is_told():
    stage = Launch(nodes=4)
    stage.start(resume=300)
    stage.rank("rank.resume", 0, step=250, world_size=3)
    assert "from step 300 and rank 0 goes on from step 250" in stage.said()[-1].sentence
    assert "4 ranks were launched and rank 0 counts 3" in stage.said()[-1].sentence


def test_the_next_launch_takes_the_mismatch_back():
    stage = Launch(nodes=4)
    key = stage.start(parameters={"nodes": 5})[-1].key
    said = stage.start(parameters={"nodes": 4})
    assert [(item.key, item.stage) for item in said] == [(key, Of.SUSPECT), (key, Of.CLEARED)]


def test_late_words_of_an_earlier_attempt_change_nothing():
    stage = Launch(nodes=4)
    stage.start(resume=0)
    stage.start(resume=300)
    stage.send("rank.resume", node="n0", rank=0, attempt=1, step=0)
    assert stage.said() == []


@pytest.mark.parametrize(
    "data", [{"parameters": "7B"}, {"parameters": [1]}, {"parameters": {"dp": "x", "tp": -1}}, {"parameters": 0}]
)
def test_strange_declarations_say_nothing(data):
    stage = Launch(nodes=4)
    stage.start(**data)
    stage.rank("rank.resume", 0, step="x", parameters={"a": 1})
    assert stage.said() == []
