"""Start the private servers that an installation needs, and only those.

An address given from outside (DATABASE_URL, REDIS_URL) means that the server
is somebody else's: nothing is started in its place.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from controlplane.embedded import postgres, valkey
from controlplane.embedded.accounts import server_account
from controlplane.embedded.child import Program, server_environment
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.group import Group, Say, tail
from controlplane.embedded.home import Home
from controlplane.embedded.places import data_place

START_TRIES = 3  # a port may be taken between the look and the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the servers are; `fresh` tells that the database was made just now."""

    database_url: str
    redis_url: str
    fresh: bool = False


class Server(Protocol):
    """What PostgreSQL and Valkey have in common here."""

    @property
    def name(self) -> str:
        """Name of the process and of its log."""

    @property
    def url(self) -> str:
        """Where clients find it."""

    def moved(self) -> Self:
        """Return the same server on another free port."""

    def last_resort(self, now: float) -> str:
        """Do what may help a server that does not come up; return what was done, if anything."""

    def program(self, log: Path, env: Mapping[str, str], *, durable: bool) -> Program:
        """Describe the server process."""

    def wait_ready(self, alive: Callable[[], bool]) -> None:
        """Wait until it serves, or raise CannotStart."""


def start_servers(
    home: Home, group: Group, given: Addresses, *, durable: bool, say: Say, fill: postgres.Fill = postgres.initdb
) -> Addresses:
    """Start what `given` has no address for; return all addresses.

    The two servers start side by side, since each spends most of that time waiting.
    `fill` makes a cluster where there is none.

    Raises:
        CannotStart: when a server does not come up.
    """
    if given.database_url and given.redis_url:
        return given
    account = server_account(home.path / "servers" / "postgres")
    place = data_place(home.path, account)
    start = partial(_Starting, home=home, group=group, durable=durable)
    fresh, redis, database = False, None, None
    if not given.redis_url:
        redis = start(valkey.prepare(place, account, home.secret("valkey_password")))
    if not given.database_url:
        cluster = postgres.prepare(place, account, home.secret("postgres_password"), fill)
        fresh, database = cluster.fresh, start(cluster)
    return Addresses(
        database_url=database.wait(say) if database else given.database_url,
        redis_url=redis.wait(say) if redis else given.redis_url,
        fresh=fresh,
    )


class _Starting:
    """A server on its way up; a new port, and at last a server-specific resort, when it does not come."""

    def __init__(self, server: Server, home: Home, group: Group, *, durable: bool) -> None:
        self.server = server
        self._home, self._group, self._durable = home, group, durable
        self._program = self._start()

    def wait(self, say: Say) -> str:
        for tries_left in reversed(range(START_TRIES)):
            try:
                self.server.wait_ready(lambda: self._group.running(self._program.name))
                break
            except CannotStart as error:
                self._group.stop(self._program.name)
                if not tries_left:
                    raise CannotStart(f"{error}\n{tail(self._program)}") from None
                self._try_otherwise(tries_left, say)
        return self.server.url

    def _start(self) -> Program:
        log = self._home.logs / f"{self.server.name}.log"
        program = self.server.program(log, server_environment(), durable=self._durable)
        self._group.start(program)
        return program

    def _try_otherwise(self, tries_left: int, say: Say) -> None:
        self.server = self.server.moved()
        done = self.server.last_resort(time.time()) if tries_left == 1 else ""
        if done:
            say(done)
        self._program = self._start()
