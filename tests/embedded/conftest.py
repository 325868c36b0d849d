"""One control plane for the tests of this folder that only look at it, or leave it as it was."""

from collections.abc import Iterator

import pytest

from controlplane.embedded.plane import ControlPlane
from tests.servers import temporary_home

OUTSIDE = {"MIDDLEWATCH_NOTIFY_ALLOW": "127.0.0.1"}
"""The plane may tell receivers on this machine."""


@pytest.fixture(scope="package")
def live_plane() -> Iterator[ControlPlane]:
    """A whole control plane with servers of its own: web, worker and beat as real processes."""
    with (
        temporary_home() as home,
        ControlPlane(
            home, database_url="", redis_url="", durable=False, passing=True, say=print, extra=OUTSIDE
        ) as plane,
    ):
        yield plane
