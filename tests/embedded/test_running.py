import pytest

from controlplane.embedded import running
from controlplane.embedded.home import Home

RUNS = {
    "DATABASE_URL": "postgresql://x@/middlewatch", "REDIS_URL": "redis://x", "MIDDLEWATCH_SECRET_KEY": "k",
    "MIDDLEWATCH_BASE_URL": "http://127.0.0.1:1", "PATH": "/bin",
}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    kept = Home(tmp_path)
    running.publish(kept, RUNS)
    return kept


def joined(home, **given):
    environ = {"MIDDLEWATCH_HOME": str(home.path), **given}
    running.join(environ)
    return environ


def test_a_command_finds_the_servers_that_run_from_its_home(home):
    assert joined(home).items() >= {name: RUNS[name] for name in running.NAMES}.items()
    assert "PATH" not in joined(home)


def test_an_address_that_was_given_wins(home):
    assert joined(home, DATABASE_URL="postgresql://mine") == {
        "MIDDLEWATCH_HOME": str(home.path), "DATABASE_URL": "postgresql://mine",
    }  # fmt: skip


def test_nothing_is_found_where_nothing_runs(home, tmp_path):
    running.withdraw(home)
    assert "DATABASE_URL" not in joined(home)
    for text in ("{", "[]", '{"environment": null}'):
        (tmp_path / "state.json").write_text(text)
        assert "DATABASE_URL" not in joined(home)


def test_the_addresses_are_closed_to_others(home):
    assert (home.path / "state.json").stat().st_mode & 0o077 == 0
