import pytest

from controlplane.domain.access.policy import LEAST_ROLE, Role, allows, least_role


@pytest.mark.parametrize("act", LEAST_ROLE)
def test_each_role_may_do_what_the_ones_before_it_may(act):
    allowed = [allows(role, act) for role in Role]
    assert allowed == sorted(allowed)
    assert allows("admin", act)


def test_the_four_roles_differ():
    may = {role: {act for act in LEAST_ROLE if allows(role, act)} for role in Role}
    assert may[Role.VIEWER] == {"view"}
    assert may[Role.VIEWER] < may[Role.RESPONDER] < may[Role.OPERATOR] < may[Role.ADMIN]


@pytest.mark.parametrize(
    ("act", "role"),
    [
        ("acknowledge", "responder"),
        ("hold_run", "responder"),
        ("switch_off", "responder"),
        ("switch_on", "operator"),
        ("approve", "operator"),
        ("manage_people", "admin"),
    ],
)
def test_an_act_names_the_role_it_needs(act, role):
    assert least_role(act) == role


def test_an_act_that_nobody_listed_is_a_mistake_not_a_permission():
    with pytest.raises(KeyError):
        allows("admin", "launch_misspelt")
