import pytest

from controlplane.domain.errors import Refused
from controlplane.domain.fleet.states import ALLOWED, KEPT_OUT, USABLE, check, may_move
from controlplane.fleet.models import NodeState


def test_the_table_knows_exactly_the_states_of_the_ledger():
    assert set(ALLOWED) == set(NodeState.values)
    assert all(new in ALLOWED for states in ALLOWED.values() for new in states)


def test_no_state_is_both_usable_and_kept_out():
    assert not USABLE & KEPT_OUT


@pytest.mark.parametrize(
    ("old", "new"), [("healthy", "quarantined"), ("spare", "healthy"), ("quarantined", "proving"), ("unknown", "spare")]
)
def test_a_sensible_move_is_allowed(old, new):
    check(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [("repairing", "healthy"), ("retired", "spare"), ("healthy", "unknown"), ("healthy", "healthy"), ("x", "y")],
)
def test_a_move_that_skips_the_proof_is_refused(old, new):
    assert not may_move(old, new)
    with pytest.raises(Refused, match=old):
        check(old, new)
