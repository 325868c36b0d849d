"""What a trace may hold, and that whatever it may not is named with its line."""

import pytest

from controlplane.replay.errors import TraceError
from controlplane.replay.expand import Feed
from controlplane.replay.trace import MAX_LINE_BYTES, Trace
from tests.replay.traces import HEADER, beats, event, launch, steps, write


def played(path):
    """Everything that arrives, in order."""
    feed = Feed(Trace(path))
    found = []
    while not feed.over:
        found += feed.take(feed.next_t())
    return found


def refused(path):
    with pytest.raises(TraceError) as error:
        played(path)
    return error.value.line, error.value.why


def test_arrivals_come_in_order_of_time_whatever_stands_for_them(tmp_path):
    path = write(tmp_path / "a", beats("n0", "n1", until=20), *launch(), steps(1, 3, t=2, every_s=4), end=30)
    times = [one.t for one in played(path)]
    assert times == sorted(times)
    assert len(times) == 8 + 3 + 3


def test_heartbeats_end_before_until(tmp_path):
    path = write(tmp_path / "a", beats("n0", until=15, every_s=5))
    assert [one.t for one in played(path)] == [0, 5, 10]


def test_the_first_declared_step_ends_one_step_after_its_line(tmp_path):
    path = write(tmp_path / "a", steps(7, 9, t=3, every_s=10))
    assert [(one.t, one.event.at_ms) for one in played(path)] == [(13, 13000), (23, 23000), (33, 33000)]


def test_jitter_is_the_same_each_time_and_within_three_deviations(tmp_path):
    path = write(tmp_path / "a", steps(1, 500, every_s=10, jitter=0.01), end=6000)
    first, second = [[one.t for one in played(path)] for _ in range(2)]
    assert first == second
    displaced = [t - 10 * place for place, t in enumerate(first, start=1)]
    assert 0 < max(map(abs, displaced)) <= 0.3 + 1e-9
    assert abs(sum(displaced) / len(displaced)) < 0.02


def test_declared_steps_are_told_by_the_node_of_their_rank(tmp_path):
    path = write(tmp_path / "a", *launch(nodes=("n1", "n0")), steps(1, 1, t=2, rank=0))
    assert played(path)[-1].node == "n1"


def heartbeat(t, node):
    return event(t, node, "node.heartbeat", run=None, uptime_s=1.0)


@pytest.mark.parametrize("told", ["declared", "one by one"])
def test_a_node_that_beats_no_more_answers_nobody_and_one_that_never_did_is_believed(tmp_path, told):
    if told == "declared":
        lines = [beats("n0", until=100), beats("n1", until=22)]
    else:
        n1 = [heartbeat(t, "n1") for t in range(0, 22, 5)]
        lines = sorted([*(heartbeat(t, "n0") for t in range(0, 100, 5)), *n1], key=lambda line: line["t"])
    feed = Feed(Trace(write(tmp_path / "a", *lines, end=100)))
    feed.take(12)
    assert feed.answers("n1", 12)
    feed.take(23)
    assert (feed.answers("n0", 23), feed.answers("n1", 23), feed.answers("head", 23)) == (True, False, True)
    assert [one.t for one in feed.take(40) if one.node == "n0"] == [25, 30, 35, 40]


def test_shortly_before_the_end_of_a_trace_nobody_can_be_told_to_be_gone(tmp_path):
    feed = Feed(Trace(write(tmp_path / "a", *(heartbeat(t, node) for t in range(0, 30, 5) for node in ("n0", "n1")),
                            heartbeat(30, "n0"), end=35)))  # fmt: skip
    feed.take(30)
    assert feed.answers("n1", 31)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{not json", "cannot be read"),
        ({"t": 1}, "exactly one of"),
        (event(1, "n0", "x") | {"answers": {"do": "kill", "state": "failed"}}, "exactly one of"),
        ({"t": -1, "answers": {"do": "kill", "state": "failed"}}, "t is -1"),
        ({"t": 1e12, "answers": {"do": "kill", "state": "failed"}}, "t is 1e+12"),
        ({"t": "soon", "answers": {"do": "kill", "state": "failed"}}, "Expected `float`"),
        (event(1, "n9", "node.heartbeat", run=None), "node n9 is not in the header"),
        (event(1, "n0", "rank.step", run="other", step=1), "run other is not in the header"),
        ({"t": 1, "event": {"at_ms": 1, "kind": "x"}}, "wants the node"),
        (beats("n0", until=1e9, every_s=0.1), "more than 50000000 events"),
        (steps(0, 10**9), "more than 50000000 events"),
        (beats("n0", until=10, every_s=0), ">= 0.1"),
        ('{"t": 1, "operator": "' + "x" * MAX_LINE_BYTES + '"}', "longer than"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_named(tmp_path, line, told):
    number, why = refused(write(tmp_path / "a", beats("n0", until=20), line))
    assert number == 3
    assert told in why


def test_time_does_not_go_back(tmp_path):
    late = event(10, "n0", "node.heartbeat", run=None)
    number, why = refused(write(tmp_path / "a", late, event(4, "n0", "node.heartbeat", run=None)))
    assert (number, why) == (3, "t goes back from 10 to 4")


def test_a_trace_without_its_end_was_cut_off(tmp_path):
    number, why = refused(write(tmp_path / "a", beats("n0", until=20), end=None))
    assert number == 2
    assert "cut off" in why


def test_a_trace_that_breaks_inside_a_line_was_cut_off(tmp_path):
    path = write(tmp_path / "a", beats("n0", until=20))
    path.write_text(path.read_text()[:-9])
    number, why = refused(path)
    assert number == 3
    assert "cut off" in why


def test_nothing_may_follow_the_end(tmp_path):
    number, why = refused(write(tmp_path / "a", {"t": 5, "end": True}, beats("n0", until=20)))
    assert number == 3
    assert "after the end" in why


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"trace": 2}, "version 2"),
        ({"nodes": [*HEADER["nodes"], HEADER["nodes"][0]]}, "one name"),
        ({"runs": [{**HEADER["runs"][0], "nodes": ["n0", "n7"]}]}, "n7"),
        ({"runs": [{**HEADER["runs"][0], "nodes": []}]}, "no nodes"),
        ({"runs": "all"}, "Expected `array`"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, changes, told):
    with pytest.raises(TraceError, match="line 1") as error:
        Trace(write(tmp_path / "a", header={**HEADER, **changes}))
    assert told in str(error.value)


def test_an_empty_file_is_no_trace(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(TraceError, match="no header"):
        Trace(tmp_path / "a")
