from datetime import UTC, datetime, timedelta

import pytest

from controlplane.domain.errors import LeaseLost
from controlplane.runs.leases import give_back, take
from controlplane.runs.machines import lease_machine, release_machine, save_machine
from controlplane.runs.models import Machine

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=11)


@pytest.fixture
def row():
    return Machine.objects.filter(pk=Machine.objects.create(name="fleet").pk)


def test_a_row_that_is_taken_is_not_taken_by_another(row):
    assert take(row, "one", NOW, 10) is not None
    assert take(row, "two", NOW, 10) is None


def test_a_lease_that_ran_out_may_be_taken_and_fences_the_old_owner_off(row):
    old = take(row, "one", NOW, 10)
    new = take(row, "two", LATER, 10)
    assert new.fence > old.fence
    with pytest.raises(LeaseLost):
        old.locked()
    assert new.locked().owner == "two"


def test_a_lease_that_a_clock_running_ahead_wrote_keeps_nobody_out(row):
    ahead = take(row, "one", NOW + timedelta(hours=1), 10)
    assert take(row, "two", NOW, 10) is not None
    with pytest.raises(LeaseLost):
        ahead.locked()


def test_who_was_knocked_at_learns_of_it_once(row):
    lease = take(row, "one", NOW, 10)
    take(row, "two", NOW, 10)
    assert not give_back(lease)
    assert row.get().owner == ""
    assert give_back(take(row, "one", NOW, 10))


def test_a_lost_lease_needs_no_giving_back(row):
    old = take(row, "one", NOW, 10)
    take(row, "two", LATER, 10)
    assert give_back(old)
    assert row.get().owner == "two"


def test_a_reducer_is_saved_only_by_the_holder_of_the_lease():
    old = lease_machine("fleet", "one", NOW, 10)
    new = lease_machine("fleet", "two", LATER, 10)
    save_machine(new, {"a": 1}, cursor=5, now=LATER)
    with pytest.raises(LeaseLost):
        save_machine(old, {"a": 2}, cursor=9, now=LATER)
    stored = Machine.objects.get(name="fleet")
    assert (stored.snapshot, stored.cursor, stored.version) == ({"a": 1}, 5, 1)
    assert release_machine(new)
