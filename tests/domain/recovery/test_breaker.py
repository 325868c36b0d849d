import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.breaker import FleetRecord, Record, judge_fleet, judge_run, most_out

POLICY = RunPolicy()


@pytest.mark.parametrize(
    ("record", "opens"),
    [
        (Record(failed=2), False),
        (Record(failed=3), True),
        (Record(empties=1), False),
        (Record(empties=2), True),
    ],
)
def test_three_failed_runbooks_or_two_emptied_buckets_in_an_hour_open_it(record, opens):
    assert bool(judge_run(record, POLICY)) is opens


@pytest.mark.parametrize(
    ("record", "opens"),
    [
        (FleetRecord(runs_failed=2, nodes=100), False),
        (FleetRecord(runs_failed=3, nodes=100), True),
        (FleetRecord(nodes_out=10, nodes=100), False),
        (FleetRecord(nodes_out=11, nodes=100), True),
        (FleetRecord(nodes_out=4, nodes=6), False),
        (FleetRecord(nodes_out=5, nodes=6), True),
    ],
)
def test_failures_on_three_runs_or_a_tenth_of_the_nodes_in_a_day_open_it_for_all(record, opens):
    assert bool(judge_fleet(record)) is opens


def test_a_small_fleet_may_lose_four_nodes_before_a_person_is_asked():
    assert [most_out(nodes) for nodes in (4, 40, 128)] == [4, 4, 12]
