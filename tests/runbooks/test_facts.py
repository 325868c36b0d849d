from datetime import UTC, datetime, timedelta

import pytest

from controlplane.fleet.models import Node
from controlplane.runbooks.facts import age_s, neighbours
from controlplane.runs import automation
from controlplane.runs.models import Attempt, Run

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("racks", "found"),
    [
        (["a", "a", "b", "b"], ("n2",)),
        (["a", "a", "a", "a"], ()),
        (["a", "b", "c", "d"], ()),
        ([None, "a", "a", "a"], ()),
    ],
)
def test_the_neighbours_of_a_suspect_share_its_rack_unless_all_do(racks, found):
    for number, rack in enumerate(racks, 1):
        labels = {"rack": rack} if rack else {}
        Node.objects.create(name=f"n{number}", labels=labels, enrolled_at=NOW, state_since=NOW)
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=4, created_at=NOW)
    attempt = Attempt.objects.create(run=run, number=1, nodes=["n1", "n2", "n3", "n4"], started_at=NOW)
    assert neighbours(attempt, "n1") == found


def test_a_persons_word_to_answer_it_makes_old_news_new():
    found_at = NOW - timedelta(hours=8)
    assert age_s(found_at, automation.standing(None), NOW) == 8 * 3600
    automation.turn_off(None, "ana", "", NOW - timedelta(hours=7))
    automation.turn_on(None, NOW - timedelta(minutes=1), process=True)
    assert age_s(found_at, automation.standing(None), NOW) == 60
