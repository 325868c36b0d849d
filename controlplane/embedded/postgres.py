"""A private PostgreSQL: its files, its start and its readiness.

It listens on a loopback port and asks for a generated password (SCRAM), so
other users of the machine are kept out. Durability is PostgreSQL's own
default; only tests ask for less.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGINT, SIGQUIT
from urllib.parse import quote

import psycopg

from controlplane.embedded import tools
from controlplane.embedded.accounts import Account
from controlplane.embedded.binaries import Binary, find_postgres
from controlplane.embedded.child import POLL_S, Program
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.orphans import end_orphans
from controlplane.embedded.places import owned_folder, reachable
from controlplane.embedded.ports import LOOPBACK, free_port

USER = DATABASE = "middlewatch"
MOST_CONNECTIONS = 200
READY_LIMIT_S = 120.0  # recovery after a crash replays the write-ahead log first
Fill = Callable[[Binary, Path, Account | None, str], None]
"""Makes a cluster with a password in an empty folder of the account's."""
FAST_AND_LOSSY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Postgres:
    """A cluster that is ready to be started."""

    binary: Binary
    account: Account | None
    data: Path
    password: str
    port: int
    fresh: bool

    @property
    def name(self) -> str:
        """Name of the process and of its log."""
        return "postgres"

    @property
    def url(self) -> str:
        """Address of Middlewatch's database in it."""
        return self._address(DATABASE)

    def moved(self) -> "Postgres":
        """Return the same cluster on another free port."""
        return replace(self, port=free_port())

    def last_resort(self, now: float) -> str:  # noqa: ARG002
        """Do nothing: the truth is never set aside."""
        return ""

    def program(self, log: Path, env: Mapping[str, str], *, durable: bool = True) -> Program:
        """Describe the server process.

        SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one: an
        orphan leaves at once and the next start recovers.
        """
        settings = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": str(MOST_CONNECTIONS),
            "password_encryption": "scram-sha-256",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not durable:
            settings |= FAST_AND_LOSSY
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name=self.name, argv=[self.binary.program, "-D", self.data, *options], env=env, cwd=self.data,
            log=log, account=self.account, stop=SIGINT, stop_limit_s=30.0, orphaned=SIGQUIT,
        )  # fmt: skip

    def wait_ready(self, alive: Callable[[], bool]) -> None:
        """Wait until it takes queries, and create Middlewatch's database on the first start.

        Raises:
            CannotStart: when the server ends, or is not ready within two minutes.
        """
        deadline = time.monotonic() + READY_LIMIT_S
        while True:
            try:
                with psycopg.connect(self._address("postgres"), autocommit=True, connect_timeout=5) as connection:
                    with contextlib.suppress(psycopg.errors.DuplicateDatabase):
                        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
                    return
            except psycopg.OperationalError as error:
                if not alive() or time.monotonic() > deadline:
                    raise CannotStart(f"PostgreSQL does not answer: {error}") from None
            time.sleep(POLL_S)

    def _address(self, database: str) -> str:
        return f"postgresql://{USER}:{quote(self.password)}@{LOOPBACK}:{self.port}/{database}"


def initdb(binary: Binary, folder: Path, account: Account | None, password: str) -> None:
    """Make a new, empty cluster.

    Raises:
        CannotStart: when PostgreSQL cannot make it.
    """
    secret = folder.with_name("postgres.password")
    try:
        secret.touch(mode=0o600)
        secret.write_text(password)
        if account:
            os.chown(secret, account.uid, account.gid)
        tools.run([binary.beside("initdb"), "-D", folder, "-U", USER, "-E", "UTF8", "--no-locale",
                   "--auth=scram-sha-256", f"--pwfile={secret}"], account)  # fmt: skip
    finally:
        secret.unlink(missing_ok=True)


def prepare(place: Path, account: Account | None, password: str, fill: Fill = initdb) -> Postgres:
    """Make or find the cluster below `place`, and clear away what a killed instance left.

    Raises:
        CannotStart: when no fitting PostgreSQL exists or the cluster cannot be made.
    """
    data = place / "postgres"
    binary = reachable(find_postgres(_major(data)), account)
    fresh = _major(data) is None
    if fresh:
        _make(binary, data, account, password, fill)
    end_orphans(data.resolve(), frozenset({"postgres"}))
    (data / "postmaster.pid").unlink(missing_ok=True)
    return Postgres(binary, account, data, password, free_port(), fresh)


def _major(data: Path) -> int | None:
    """Return the version that wrote the cluster; None when there is no whole cluster."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


def _make(binary: Binary, data: Path, account: Account | None, password: str, fill: Fill) -> None:
    """Make the cluster beside its final place, so that a killed start leaves no half one there."""
    half = data.with_name("postgres.new")
    shutil.rmtree(half, ignore_errors=True)
    owned_folder(half, account)
    fill(binary, half, account, password)
    half.rename(data)
