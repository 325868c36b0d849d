"""Which troubles of different runs are one: what they share, and that they begin together."""

from controlplane.domain.diagnosis.inhibit import WINDOW_S
from controlplane.domain.diagnosis.shared import Trouble, shared


def trouble(number, began, part="switch:s1"):
    return Trouble(number=number, run=f"r{number}", klass="node_lost", began=began, parts=frozenset({part}))


def test_an_old_trouble_hides_no_later_one_of_two_runs_at_the_same_place():
    late = 10 * WINDOW_S
    (found,) = shared([trouble(1, 0.0), trouble(2, late), trouble(3, late + 1)])
    assert [one.number for one in found.troubles] == [2, 3]


def test_each_of_two_outages_of_one_place_is_one_trouble():
    late = 10 * WINDOW_S
    found = shared([trouble(1, 0.0), trouble(2, 1.0), trouble(3, late), trouble(4, late + 1)])
    assert [[one.number for one in group.troubles] for group in found] == [[1, 2], [3, 4]]
