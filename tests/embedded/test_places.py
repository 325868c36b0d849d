import os
import pwd
import shutil
import stat

import pytest

from controlplane.embedded import places
from controlplane.embedded.accounts import Account, can_enter, can_execute
from controlplane.embedded.binaries import find_valkey
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.places import data_place, forget, owned_folder, reachable
from tests.servers import temporary_home

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NOBODY = Account.of(pwd.getpwnam("nobody"))


@pytest.fixture
def elsewhere(monkeypatch):
    """A stand-in for /var/lib/middlewatch that every account can pass to."""
    with temporary_home() as folder:
        monkeypatch.setattr(places, "ELSEWHERE", folder / "middlewatch")
        yield folder / "middlewatch"


@pytest.fixture
def closed(tmp_path):
    """A home below a folder that only its owner can pass."""
    home = tmp_path / "closed" / "home"
    home.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    return home


def test_data_normally_lie_in_the_home(tmp_path):
    assert data_place(tmp_path, None) == tmp_path / "servers"


@as_root
def test_data_of_a_home_out_of_reach_lie_elsewhere_at_a_place_that_stays(closed, elsewhere):
    first, again = data_place(closed, NOBODY), data_place(closed, NOBODY)
    assert first == again
    assert first.parent == elsewhere
    assert can_enter(NOBODY, owned_folder(first / "postgres", NOBODY))


@as_root
def test_two_homes_out_of_reach_have_places_of_their_own(closed, elsewhere):
    other = closed.parent / "other"
    other.mkdir()
    assert data_place(closed, NOBODY) != data_place(other, NOBODY)


@as_root
def test_nobodys_folder_modes_are_changed(closed, elsewhere):
    before = [stat.S_IMODE(each.stat().st_mode) for each in (closed, closed.parent)]
    data_place(closed, NOBODY)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (closed, closed.parent)] == before


@as_root
def test_the_account_owns_its_data_folder_and_not_the_place_around_it(closed, elsewhere):
    place = data_place(closed, NOBODY)
    data = owned_folder(place / "postgres", NOBODY)
    assert data.stat().st_uid == NOBODY.uid
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert place.stat().st_uid == 0
    assert not place.stat().st_mode & 0o022


@as_root
def test_programs_out_of_reach_are_copied_once(closed, elsewhere):
    original = find_valkey()
    hidden = closed / "bin"
    hidden.mkdir()
    shutil.copy2(original.program, hidden / "valkey-server")
    binary = places.Binary(hidden / "valkey-server", hidden, original.version)
    copied = reachable(binary, NOBODY)
    assert copied.program != binary.program
    assert can_execute(NOBODY, copied.program)
    written = copied.program.stat().st_ctime_ns
    assert reachable(binary, NOBODY) == copied
    assert copied.program.stat().st_ctime_ns == written


def test_programs_in_reach_are_used_where_they_are():
    binary = find_valkey()
    assert reachable(binary, None) is binary


@as_root
def test_forgetting_a_home_deletes_what_was_placed_elsewhere(closed, elsewhere):
    place = data_place(closed, NOBODY)
    forget(closed)
    assert not place.exists()
    assert not closed.exists()


def test_a_place_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "servers").touch()
    with pytest.raises(CannotStart, match="servers cannot be used for data"):
        data_place(tmp_path, None)
