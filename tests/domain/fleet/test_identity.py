"""Whether two agents are one machine (L-01, methods 11.6)."""

import pytest

from controlplane.domain.fleet.identity import UNKNOWN, Claim, Holder, Kinship, digest, judge, kinship

BOARD = {"machine_id": "m1", "board_serial": "B1", "gpus": [{"uuid": f"GPU-{number}"} for number in range(4)]}


def gpus(*numbers):
    return [{"uuid": f"GPU-{number}"} for number in numbers]


def test_the_same_serial_numbers_are_the_same_machine_whatever_its_gpus():
    assert kinship(BOARD, {**BOARD, "gpus": gpus(9)}) is Kinship.SAME


@pytest.mark.parametrize(
    ("here", "kin"), [((0, 1, 8, 9), Kinship.GPUS), ((0, 7, 8, 9), Kinship.NONE), ((), Kinship.NONE)]
)
def test_half_of_the_gpus_have_moved_together(here, kin):
    assert kinship({"machine_id": "m2", "gpus": gpus(*here)}, BOARD) is kin


@pytest.mark.parametrize("junk", ["", None, "None", "To be filled by O.E.M.", "Default string", "0"])
def test_what_the_maker_did_not_fill_in_names_no_machine(junk):
    assert digest({"machine_id": junk, "board_serial": junk}) == UNKNOWN
    assert kinship({"board_serial": junk}, {"board_serial": junk}) is Kinship.NONE


@pytest.mark.parametrize("hardware", [{}, {"gpus": 5}, {"gpus": [None, 7, {"uuid": None}]}])
def test_a_machine_that_shows_nothing_is_no_kin(hardware):
    assert kinship(hardware, BOARD) is Kinship.NONE


def test_another_machine_takes_a_name_only_from_a_silent_one():
    holder = Holder("i1", "d1", 100.0)
    assert judge(holder, "i2", "d1", 101.0) is Claim.GRANTED
    assert judge(holder, "i2", "d2", 129.0) is Claim.CONFLICT
    assert judge(holder, "i2", "d2", 130.0) is Claim.GRANTED
