"""Stacks grouped by where ranks stand."""

import pytest

from controlplane.domain.diagnosis.stacks import (
    MAX_FRAME,
    MAX_FRAMES,
    MAX_GROUPS,
    MAX_LISTED,
    Standing,
    group,
    place,
    sentence,
)

REDUCE = (
    "all_reduce (torch/distributed/distributed_c10d.py:2806)",
    "wrapper (torch/distributed/c10d_logger.py:81)",
    "average (job/train.py:88)",
    "main (job/train.py:140)",
)
LOADER = (
    "wait (threading.py:327)",
    "_try_get_data (torch/utils/data/dataloader.py:1243)",
    "__next__ (torch/utils/data/dataloader.py:730)",
    "batches (job/dataset.py:41)",
)
BACKWARD = ("_engine_run_backward (torch/autograd/graph.py:824)", "step (job/train.py:60)")


def stands(rank: int, frames: tuple[str, ...] = REDUCE) -> Standing:
    return Standing(rank=rank, frames=frames, answered=True)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (REDUCE, "waits in all_reduce (train.py:88)"),
        (LOADER, "stands in the data loader (dataset.py:41)"),
        (BACKWARD, "stands in the backward pass (train.py:60)"),
        (("tokenize (job/text.py:7)", "main (job/train.py:1)"), "stands in tokenize (text.py:7)"),
        (("wait (threading.py:3)",), "stands in wait (threading.py:3)"),
        (("no frame at all",), "stands in no frame at all"),
        (
            ("_all_gather_base (torch/distributed/distributed_c10d.py:9)",),
            "waits in all_gather (distributed_c10d.py:9)",
        ),
    ],
)
def test_the_innermost_frames_that_mean_something_say_where_a_rank_stands(frames, words):
    assert place(frames) == words


def test_the_few_come_before_the_many_and_one_sentence_tells_both():
    groups = group([*(stands(rank) for rank in range(8) if rank != 3), stands(3, LOADER)])
    assert [(one.ranks, one.count) for one in groups] == [((3,), 1), ((0, 1, 2, 4, 5, 6, 7), 7)]
    assert sentence(groups) == (
        "Of 8 ranks 7 wait in all_reduce (train.py:88), rank 3 stands in the data loader (dataset.py:41)."
    )


def test_who_did_not_answer_is_a_group_of_its_own_with_the_state_of_its_process():
    groups = group([stands(0), stands(1), Standing(rank=2, proc_state="T"), Standing(rank=3)])
    assert sentence(groups) == (
        "Of 4 ranks 2 wait in all_reduce (train.py:88), rank 2 did not answer (stopped), rank 3 did not answer."
    )
    assert [one.answered for one in groups] == [False, False, True]


def test_what_was_read_of_a_stopped_rank_from_outside_is_shown_but_is_no_answer():
    found = group([Standing(rank=0, frames=LOADER, answered=False, proc_state="T")])[0]
    assert (found.words, found.frames, found.answered) == ("did not answer (stopped)", LOADER, False)


def test_the_line_counts_so_that_ranks_before_and_behind_a_branch_are_told_apart():
    other = (*REDUCE[:2], "average (job/train.py:91)")
    assert len(group([stands(0), stands(1), stands(2, other)])) == 2


def test_ranks_that_all_stand_together_are_told_as_one_group():
    assert sentence(group([stands(0), stands(1)])) == "All 2 ranks wait in all_reduce (train.py:88)."
    assert sentence(()) == ""


def test_however_many_ranks_and_places_there_are_the_result_is_small():
    many = group([stands(rank, (f"f (job/a.py:{rank})",) * 100) for rank in range(300)])
    assert len(many) == MAX_GROUPS
    assert sum(one.count for one in many) == 300
    assert many[-2].words == "in 285 further places"
    assert len(many[0].frames) == MAX_FRAMES
    big = group([stands(rank, ("x" * 5000,)) for rank in range(20_000)])[0]
    assert (len(big.ranks), len(big.frames[0])) == (MAX_LISTED, MAX_FRAME)
    assert len(sentence(many)) < 600
