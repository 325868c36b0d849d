import pytest

from controlplane.access.models import Role, User


@pytest.fixture
def person(db):
    def make(name="ana", role=Role.VIEWER, password="right horse battery", **more):  # noqa: S107
        return User.objects.create_user(name, password=password, role=role, **more)

    return make
