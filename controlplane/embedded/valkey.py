"""A private Valkey (or Redis): its configuration, its start and its readiness.

The configuration goes in by standard input, so the password stands in no
file and on no command line. It keeps an append-only file; losing it would
lose no fact, so a file too damaged to load is set aside and not mourned.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGTERM
from urllib.parse import quote

import redis

from controlplane.embedded.accounts import Account
from controlplane.embedded.binaries import Binary, find_valkey
from controlplane.embedded.child import POLL_S, Program
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.orphans import end_orphans
from controlplane.embedded.places import owned_folder, reachable
from controlplane.embedded.ports import LOOPBACK, free_port

READY_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Valkey:
    """A server that is ready to be started."""

    binary: Binary
    account: Account | None
    data: Path
    password: str
    port: int

    @property
    def name(self) -> str:
        """Name of the process and of its log."""
        return "valkey"

    @property
    def url(self) -> str:
        """Address of its first database."""
        return f"redis://:{quote(self.password)}@{LOOPBACK}:{self.port}/0"

    def moved(self) -> "Valkey":
        """Return the same server on another free port."""
        return replace(self, port=free_port())

    def program(self, log: Path, env: Mapping[str, str], *, durable: bool = True) -> Program:
        """Describe the server process."""
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "requirepass": self.password,
            "dir": _quoted(str(self.data)),
            "save": _quoted(""),
            "appendonly": "yes" if durable else "no",
            "appendfsync": "everysec",
            "daemonize": "no",
        }
        lines = "".join(f"{name} {value}\n" for name, value in settings.items())
        return Program(
            name=self.name, argv=[self.binary.program, "-"], stdin=lines.encode(), env=env, cwd=self.data,
            log=log, account=self.account, stop=SIGTERM, orphaned=SIGTERM,
        )  # fmt: skip

    def wait_ready(self, alive: Callable[[], bool]) -> None:
        """Wait until it has loaded its file and answers.

        Raises:
            CannotStart: when the server ends, or does not answer within a minute.
        """
        deadline = time.monotonic() + READY_LIMIT_S
        with redis.Redis.from_url(self.url, socket_timeout=2, retry=None) as client:
            while not _answers(client):
                if not alive() or time.monotonic() > deadline:
                    raise CannotStart("Valkey does not answer.")
                time.sleep(POLL_S)

    def last_resort(self, now: float) -> str:
        """Set a file that cannot be loaded aside."""
        damaged = self.data / "appendonlydir"
        if not damaged.exists():
            return ""
        aside = damaged.rename(self.data / f"appendonlydir.damaged-{int(now)}")
        return f"Valkey could not load its file; it is set aside as {aside} and Valkey starts empty."


def prepare(place: Path, account: Account | None, password: str) -> Valkey:
    """Make or find the data folder below `place`, and clear away what a killed instance left.

    Raises:
        CannotStart: when no fitting Valkey or Redis exists.
    """
    binary = reachable(find_valkey(), account)
    data = owned_folder(place / "valkey", account)
    end_orphans(data.resolve(), frozenset({"valkey-server", "redis-server"}))
    return Valkey(binary, account, data, password, free_port())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
