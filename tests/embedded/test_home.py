import json
import os
import stat
import subprocess
import sys

import pytest

from controlplane.embedded.errors import CannotStart
from controlplane.embedded.home import SECRETS, Home


def test_secrets_are_made_once_and_only_their_owner_can_read_them(tmp_path):
    first = {name: Home(tmp_path / "home").secret(name) for name in SECRETS}
    again = {name: Home(tmp_path / "home").secret(name) for name in SECRETS}
    assert first == again
    assert len(set(first.values())) == len(SECRETS)
    assert stat.S_IMODE((tmp_path / "home" / "secrets.json").stat().st_mode) == 0o600


def test_secrets_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        Home(tmp_path / "home").secret("secret_key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home" / "secrets.json").stat().st_mode) == 0o600


def test_a_damaged_file_is_named_instead_of_replaced(tmp_path):
    home = Home(tmp_path)
    (tmp_path / "secrets.json").write_text('{"secret_key": "abc')
    with pytest.raises(CannotStart, match=r"secrets\.json is damaged"):
        home.secret("secret_key")


def test_facts_are_remembered_beside_each_other(tmp_path):
    Home(tmp_path).remember("port", 8123)
    Home(tmp_path).remember("migrations", "abc")
    assert (Home(tmp_path).recall("port"), Home(tmp_path).recall("migrations")) == (8123, "abc")
    assert json.loads((tmp_path / "state.json").read_text()) == {"port": 8123, "migrations": "abc"}


def test_a_second_instance_on_one_home_is_refused_in_a_clear_sentence(tmp_path):
    with Home(tmp_path).locked(), pytest.raises(CannotStart) as caught, Home(tmp_path).locked():
        pass
    assert f"A control plane already runs from {tmp_path} (process {os.getpid()})" in str(caught.value)
    assert "MIDDLEWATCH_HOME" in str(caught.value)


def test_two_homes_are_held_side_by_side(tmp_path):
    with Home(tmp_path / "a").locked(), Home(tmp_path / "b").locked():
        pass


def test_a_home_is_free_again_after_its_holder_was_killed(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from controlplane.embedded.home import Home\n"
        "with Home(Path(sys.argv[1])).locked(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CannotStart), Home(tmp_path).locked():
            pass
        holder.kill()
    with Home(tmp_path).locked():
        pass


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotStart, match="cannot be used as home"):
        Home(tmp_path / "file" / "home")
