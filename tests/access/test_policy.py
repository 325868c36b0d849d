import pytest
from django.contrib.auth.models import AnonymousUser

from controlplane.access.models import Role
from controlplane.access.policy import may, require
from controlplane.domain.errors import Forbidden


def test_a_role_allows_its_acts_and_no_more(person):
    responder = person(role=Role.RESPONDER)
    assert may(responder, "acknowledge")
    assert not may(responder, "approve")


def test_strangers_and_people_put_aside_may_nothing(person):
    assert not may(AnonymousUser(), "view")
    assert not may(person(role=Role.ADMIN, is_active=False), "view")


def test_a_superuser_is_an_admin(person):
    assert may(person(is_superuser=True), "manage_people")


def test_a_refusal_names_both_roles(person):
    with pytest.raises(Forbidden, match="needs the role operator; yours is viewer"):
        require(person(), "approve")
