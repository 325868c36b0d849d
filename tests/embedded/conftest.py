"""One control plane for the tests of this folder that only look at it, or leave it as it was."""

from collections.abc import Iterator, Mapping

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


@pytest.fixture(scope="package")
def first_welcome(live_plane: ControlPlane) -> Mapping[str, str]:
    """What the plane said first. Whoever asks it to say more takes this too, or the first word would be another's."""
    return live_plane.welcome()
