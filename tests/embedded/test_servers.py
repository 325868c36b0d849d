import os
import signal
import stat
from contextlib import contextmanager, suppress
from functools import partial

import psutil
import psycopg
import pytest
import redis

from controlplane.embedded import postgres, prepared, valkey
from controlplane.embedded.child import wait_until
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.group import Group
from controlplane.embedded.home import Home
from controlplane.embedded.orphans import end_orphans
from controlplane.embedded.plane import ROOT
from controlplane.embedded.servers import Addresses, start_servers
from tests.servers import private_servers, temporary_home

pytestmark = pytest.mark.xdist_group("servers")

NONE_GIVEN = Addresses(database_url="", redis_url="")


@pytest.fixture
def home():
    with temporary_home() as path:
        yield Home(path)


@pytest.fixture
def start(home):
    """Start durable servers in the home; each call is one more start."""
    with starts_in(home) as starting:
        yield starting


@contextmanager
def starts_in(home, **how):
    groups = []

    def starting(said=None):
        group = Group(lambda _: None)
        groups.append(group)
        say = (said if said is not None else []).append
        return group, start_servers(home, group, NONE_GIVEN, durable=True, say=say, **how)

    yield starting
    for group in groups:
        group.close()


@pytest.fixture(scope="module")
def pair():
    """A home with durable servers that tests only look at: `(home, group, addresses)`."""
    with temporary_home() as path, starts_in(home := Home(path)) as starting:
        yield home, *starting()


def write(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (row int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def rows(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM kept").fetchone()[0]


def kill_all(group):
    """Kill -9 both servers and PostgreSQL's own children, as kill -9 of a whole group does."""
    everything = [psutil.Process(pid) for pid in group.pids().values()]
    everything += [child for process in everything for child in process.children(recursive=True)]
    group._closing.set()
    for process in everything:
        with suppress(psutil.NoSuchProcess):  # children end with their server
            process.kill()
    psutil.wait_procs(everything, timeout=10)


def test_both_servers_take_requests_and_ask_for_their_password(pair):
    _, _, found = pair
    with psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("middlewatch",)
    assert redis.Redis.from_url(found.redis_url).ping()
    without = found.database_url.split("@")[1]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://middlewatch@{without}")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(f"redis://{found.redis_url.split('@')[1]}").ping()


def test_durability_is_real(pair):
    _, _, found = pair
    with psycopg.connect(found.database_url) as connection:
        told = [connection.execute(f"SHOW {name}").fetchone()[0] for name in ("fsync", "synchronous_commit")]
    assert told == ["on", "on"]
    assert redis.Redis.from_url(found.redis_url).config_get("appendonly") == {"appendonly": "yes"}


def test_a_committed_row_survives_kill_9_of_everything(start):
    group, found = start()
    write(found.database_url)
    redis.Redis.from_url(found.redis_url).set("kept", "1")
    kill_all(group)
    _, again = start()
    assert rows(again.database_url) == 1


def test_an_orphan_that_still_runs_is_ended_first(start, home):
    group, found = start()
    write(found.database_url)
    orphan = group.pids()["postgres"]
    group._closing.set()  # its supervisor is gone
    _, again = start()
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE
    assert rows(again.database_url) == 1


def test_a_stale_pid_file_with_the_id_of_a_living_stranger_does_not_stop_the_start(start, home):
    group, found = start()
    write(found.database_url)
    kill_all(group)
    pid_file = home.path / "servers/postgres/postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    _, again = start()
    assert rows(again.database_url) == 1


def test_strangers_with_the_same_name_are_left_alone(home):
    assert end_orphans(home.path, frozenset({"postgres"})) == []


def test_a_damaged_append_only_file_is_set_aside_and_told(start, home):
    group, found = start()
    redis.Redis.from_url(found.redis_url).set("kept", "1")
    group.close()
    manifest = next((home.path / "servers/valkey/appendonlydir").glob("*.manifest"))
    manifest.write_text("nonsense\n")
    said = []
    _, again = start(said)
    assert redis.Redis.from_url(again.redis_url).ping()
    assert any("set aside" in line for line in said)


def test_a_half_made_cluster_is_made_anew(start, home):
    half = home.path / "servers"
    half.mkdir(mode=0o711)
    (half / "postgres.new").mkdir()
    (half / "postgres.new" / "PG_VERSION").write_text("18")
    _, found = start()
    assert found.fresh
    with psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_copy_of_a_prepared_cluster_is_migrated_and_opens_to_its_own_password_alone(home):
    with starts_in(home, fill=partial(prepared.fill, ROOT)) as starting:
        _, found = starting()
        assert found.fresh
        with psycopg.connect(found.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM runs_run").fetchone() == (0,)
        for password in ("", "another"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(found.database_url, password=password)


def test_a_cluster_is_prepared_also_where_a_socket_would_lie_too_deep(home, monkeypatch):
    deep = home.path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(deep))
    monkeypatch.setattr(prepared, "_migrate", lambda *_: None)
    with starts_in(home, fill=partial(prepared.fill, ROOT)) as starting:
        _, found = starting()
        assert found.fresh
    assert list(deep.glob("middlewatch/replay-*/data/PG_VERSION"))


def test_data_of_another_major_version_are_refused_with_the_version_named(home):
    data = home.path / "servers" / "postgres"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("13\n")
    with pytest.raises(CannotStart, match="PostgreSQL 13 was not found"):
        postgres.prepare(home.path / "servers", None, "secret")


def test_data_folders_are_private(pair):
    home, _, _ = pair
    for name in ("postgres", "valkey"):
        assert stat.S_IMODE((home.path / "servers" / name).stat().st_mode) == 0o700


def test_no_password_stands_on_a_command_line_or_in_the_servers_environment(pair):
    home, group, _ = pair
    for pid in group.pids().values():
        process = psutil.Process(pid)
        seen = " ".join(process.cmdline()) + " ".join(process.environ().values())
        assert home.secret("postgres_password") not in seen
        assert home.secret("valkey_password") not in seen


def test_given_addresses_start_nothing(home):
    group = Group(lambda _: None)
    given = Addresses(database_url="postgresql://db/x", redis_url="redis://cache/0")
    assert start_servers(home, group, given, durable=True, say=print) == given
    assert group.pids() == {}
    group.close()


def test_one_given_address_starts_only_the_other_server():
    with private_servers(database_url="postgresql://db/x") as servers:
        assert set(servers.group.pids()) == {"valkey"}
        assert servers.database_url == "postgresql://db/x"


def test_a_server_that_dies_comes_back_at_the_same_address():
    with private_servers() as servers:
        pid = servers.group.pids()["postgres"]
        os.kill(pid, signal.SIGQUIT)
        assert wait_until(lambda: servers.group.pids().get("postgres", pid) != pid, 15)
        assert wait_until(lambda: answers(servers.database_url), 15)


def answers(url):
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_folder_with_spaces_and_quotes_works(home):
    odd = home.path / 'odd "name" \\ here'
    odd.mkdir(mode=0o711)
    group = Group(lambda _: None)
    try:
        found = start_servers(Home(odd), group, NONE_GIVEN, durable=False, say=print)
        assert redis.Redis.from_url(found.redis_url).config_get("dir")["dir"].endswith("valkey")
    finally:
        group.close()


def test_valkey_answers_only_while_it_lives(home):
    server = valkey.prepare(home.path, None, "secret")
    with pytest.raises(CannotStart, match="Valkey does not answer"):
        server.wait_ready(lambda: False)
