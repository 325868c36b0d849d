from controlplane.replay.beats import Beats
from controlplane.replay.expand import Arrival


def beats(*times, node="n0"):
    return [Arrival(t, 1, node, beat=("node.heartbeat", b"{}")) for t in times]


def test_a_node_is_heard_once_in_fifteen_seconds():
    kept = Beats()
    heard = [one.t for beat in beats(0, 5, 10, 15, 20, 25, 30) for one in kept.due([beat])]
    assert heard == [0, 15, 30]


def test_the_newest_beat_of_each_node_is_heard_before_anything_is_judged():
    kept = Beats()
    kept.due([*beats(0, 5, 10), *beats(0, 5, node="n1")])
    assert [(one.node, one.t) for one in kept.newest()] == [("n1", 5), ("n0", 10)]
    assert kept.newest() == []


def test_a_node_that_speaks_needs_no_older_beat():
    kept = Beats()
    kept.due([*beats(0, 5), *beats(0, 5, node="n1")])
    assert [one.node for one in kept.newest(beats(7))] == ["n1"]
    assert kept.skipped == 1


def test_what_is_never_heard_is_counted():
    kept = Beats()
    kept.due(beats(0, 5, 10))
    assert kept.skipped == 1
