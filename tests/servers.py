"""Real servers for the test run, started before Django reads its settings (`-p tests.servers`).

One PostgreSQL serves the whole run, since the Django plugin gives each worker
of pytest-xdist a database of its own. Each worker starts its own Valkey:
published messages do not respect database numbers.

A test that wants to hurt a server starts a pair of its own:

```python
with private_servers() as servers:
    servers.halt("postgres")
    servers.revive("postgres")
```
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from controlplane.embedded import prepared
from controlplane.embedded.group import Group
from controlplane.embedded.home import Home
from controlplane.embedded.places import forget
from controlplane.embedded.plane import ROOT
from controlplane.embedded.postgres import DATABASE, Fill, initdb
from controlplane.embedded.servers import Addresses, start_servers

PREFIX = "mw-test-"
TEMPLATE = "MIDDLEWATCH_TEST_TEMPLATE"
"""Names the database, migrated and used by nobody, that each worker's own is a copy of."""

_running = ExitStack()


def forget_leftovers() -> None:
    """Delete the homes of test runs that were killed before they could."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = home.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            forget(home)


@dataclass(frozen=True, slots=True)
class Servers:
    """A PostgreSQL and a Valkey of one's own."""

    home: Home
    database_url: str
    redis_url: str
    group: Group

    def halt(self, name: str) -> None:
        """Stop `postgres` or `valkey`, and keep it down."""
        self.group.stop(name)

    def revive(self, name: str) -> None:
        """Start it again with the data and the address that it had."""
        self.group.start(self.group.program(name))


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Give a home below the system's temporary folder, and delete it afterwards."""
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    home.chmod(0o711)
    try:
        yield home
    finally:
        forget(home)


@contextmanager
def private_servers(
    *, database_url: str = "", redis_url: str = "", durable: bool = False, fill: Fill = initdb
) -> Iterator[Servers]:
    """Start a server for each address that is not given, and stop them afterwards."""
    with ExitStack() as stack:
        home = Home(stack.enter_context(temporary_home()))
        group = Group(lambda _: None)
        stack.callback(group.close)
        given = Addresses(database_url=database_url, redis_url=redis_url)
        found = start_servers(home, group, given, durable=durable, say=print, fill=fill)
        yield Servers(home, found.database_url, found.redis_url, group)


def _start() -> None:
    forget_leftovers()
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    servers = _running.enter_context(
        private_servers(
            database_url=os.environ.get("DATABASE_URL", ""),
            redis_url="" if in_worker else os.environ.get("REDIS_URL", ""),
            fill=partial(prepared.fill, ROOT),
        )
    )
    if not os.environ.get("DATABASE_URL"):
        os.environ[TEMPLATE] = DATABASE
    os.environ["DATABASE_URL"] = servers.database_url
    os.environ["REDIS_URL"] = servers.redis_url
    os.environ.setdefault("MIDDLEWATCH_SECRET_KEY", "only-for-tests-" + "x" * 32)


def pytest_unconfigure() -> None:
    """Stop what was started."""
    _running.close()


_start()
