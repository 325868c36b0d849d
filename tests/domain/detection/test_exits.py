"""What the end of one rank says, in words short enough to be read at night."""

from controlplane.domain.detection.exits import MAX_SAID, judge
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
