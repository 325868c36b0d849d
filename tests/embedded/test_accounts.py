import os
import pwd
from pathlib import Path

import pytest

from controlplane.embedded import accounts
from controlplane.embedded.accounts import Account, can_enter, can_execute, identity, server_account
from controlplane.embedded.errors import CannotStart

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NOBODY = Account.of(pwd.getpwnam("nobody"))


def test_an_ordinary_user_runs_the_servers_as_himself(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert server_account(tmp_path) is None
    assert identity(None) == {}


def test_root_gets_an_account_that_exists_and_is_not_root(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = server_account(tmp_path / "not there yet")
    assert found.uid != 0
    assert pwd.getpwnam(found.name).pw_uid == found.uid


@as_root
def test_data_that_exist_keep_the_owner_they_have(tmp_path):
    data = tmp_path / "postgres"
    data.mkdir()
    os.chown(data, NOBODY.uid, NOBODY.gid)
    assert server_account(data) == NOBODY


def test_root_without_any_unprivileged_account_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(accounts, "PREFERRED", ("no-such-account",))
    with pytest.raises(CannotStart, match="no-such-account"):
        server_account(tmp_path / "not there yet")


@as_root
def test_a_closed_folder_on_the_way_is_noticed(tmp_path):
    closed = tmp_path / "closed"
    inside = closed / "inside"
    inside.mkdir(parents=True)
    closed.chmod(0o700)
    assert not can_enter(NOBODY, inside)
    assert can_enter(NOBODY, Path("/"))


def test_a_program_that_is_not_there_cannot_be_executed():
    assert not can_execute(None, Path("/nonexistent"))
