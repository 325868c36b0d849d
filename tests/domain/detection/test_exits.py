"""What the end of one rank says, in words short enough to be read at night."""

import time

import pytest

from controlplane.domain.detection.exits import MAX_SAID, PLACE, judge
from controlplane.domain.detection.intake import EXCEPTION_LINE
from controlplane.domain.detection.state import RankState

WRAPPED = (
    "RuntimeError: Got the following error when running the callback: RuntimeError: "
    "[/build/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:39914"
)


def ended(error):
    return judge(RankState(node="n01", error=error))


def test_a_lost_peer_is_told_by_the_innermost_words_of_the_error():
    found = ended(WRAPPED)
    assert found.kind == "peer reset"
    assert found.text == "lost a peer (Connection closed by peer [127.0.0.1]:39914)"


def test_a_long_error_is_cut_and_says_so():
    found = ended("ValueError: " + "much " * 100)
    assert found.kind == "ValueError"
    assert found.text.endswith("…")
    assert len(found.text) == len("raised ") + MAX_SAID


def test_an_error_of_several_lines_becomes_one():
    assert ended("KeyError: a\n  b").text == "raised KeyError: a b"


def signed(error, line=""):
    return judge(RankState(node="n01", error=error, line=line)).sign


def test_the_sign_of_a_failure_leaves_out_what_differs_from_rank_to_rank():
    assert signed("RuntimeError: rank 17 lost buffer 0x7f3a at step 9") == signed(
        "RuntimeError: rank 4 lost buffer 0x10c2 at step 12"
    )
    assert signed("RuntimeError: tensor sizes differ") != signed("RuntimeError: out of memory")


def test_the_sign_of_an_exception_names_the_source_line():
    assert signed("KeyError: 'x'", "data.py:120") == "KeyError: 'x' at data.py:120"
    assert signed("KeyError: 'x'", "data.py:7") != signed("KeyError: 'x'", "data.py:120")


def test_consequences_of_one_kind_have_one_sign():
    assert signed(WRAPPED) == signed("RuntimeError: Connection reset by peer") == "peer reset"
    assert judge(RankState(signal=11)).sign == "SIGSEGV"


@pytest.mark.parametrize("hostile", ["\n", "a.", "aError", "[", "[a.cc:1"])
def test_what_a_training_prints_does_not_hold_the_watch_up(hostile):
    said, began = hostile * (16_000 // len(hostile)), time.thread_time()
    EXCEPTION_LINE.findall(said)
    PLACE.sub("", said)
    assert time.thread_time() - began < 0.3
    assert EXCEPTION_LINE.findall("  torch.cuda.OutOfMemoryError: full\n") == [("torch.cuda.OutOfMemoryError", "full")]
