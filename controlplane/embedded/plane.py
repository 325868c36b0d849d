"""A whole control plane on one machine: servers, web, worker and beat.

`make serve`, `make demo` and the tests that need a living installation all use
this one class:

```python
with ControlPlane(home) as plane:
    print(plane.url)
    plane.spawn("agent-n01", argv, env)
```
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.embedded import postgres, prepared, running
from controlplane.embedded.child import POLL_S, Program
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.group import Group, Say, tail
from controlplane.embedded.home import Home
from controlplane.embedded.migrate import migrate_if_needed, migrations_digest
from controlplane.embedded.ports import LOOPBACK, free_port, is_free
from controlplane.embedded.servers import Addresses, start_servers

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = (sys.executable, "-m")
SETTINGS = "controlplane.settings.base"
KEEP_ALIVE_S = 75  # agents post every few seconds over one connection; uvicorn's 5 s would cut it each time
WORKER_THREADS = 4
WEB_LIMIT_S = 120.0
MANAGE_LIMIT_S = 180.0
EVERY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104


class ControlPlane:
    """Starts everything on entry and stops everything on exit.

    `home` is the data folder. `database_url` and `redis_url` default to the
    variables of that name; where they are empty, private servers are started.
    `port` None means the port of the last start, or any free one.
    `durable=False` is for tests: faster, and a power cut would lose data. `passing` is for a
    control plane that is soon gone: it begins with a copy of a database that was migrated before.
    """

    def __init__(
        self,
        home: Path,
        *,
        host: str = LOOPBACK,
        port: int | None = None,
        database_url: str | None = None,
        redis_url: str | None = None,
        extra: Mapping[str, str] | None = None,
        durable: bool = True,
        passing: bool = False,
        say: Say | None = None,
    ) -> None:
        self.home = Home(home)
        self.host = host
        self._wanted_port = port
        self._given = Addresses(
            database_url=_given("DATABASE_URL", database_url),
            redis_url=_given("REDIS_URL", redis_url),
        )
        self._extra = dict(extra or {})
        self._durable = durable
        self._passing = passing
        self._say = say or _say
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        """Start servers, migrate, start the programs, and wait until a page is served.

        Raises:
            CannotStart: with the reason, and nothing left running.
        """
        with ExitStack() as stack:
            stack.enter_context(self.home.locked())
            stack.callback(running.withdraw, self.home)
            self._group = Group(self._say)
            stack.callback(self._group.close)
            self._start()
            self._cleanup = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, last started first."""
        self._cleanup.close()

    def _start(self) -> None:
        addresses = start_servers(
            self.home, self._group, self._given, durable=self._durable, say=self._say,
            fill=partial(prepared.fill, ROOT) if self._passing else postgres.initdb,
        )  # fmt: skip
        self.database_url, self.redis_url = addresses.database_url, addresses.redis_url
        self.fresh = addresses.fresh
        self.port = self._choose_port()
        self.url = f"http://{_shown(self.host)}:{self.port}"
        self.environment = self._environment()
        self._migrate()
        web = self._web()
        for program in (web, self._worker(), self._beat()):
            self._group.start(program)
        self._wait_for_page(web)
        self.home.remember("port", self.port)
        running.publish(self.home, self.environment)

    def _migrate(self) -> None:
        fresh, own = self.fresh, not self._given.database_url
        if fresh and own and self._passing:
            self.home.remember("migrations", migrations_digest(ROOT))
            fresh = False
        migrate_if_needed(self.home, self.environment, ROOT, fresh=fresh, own=own)

    def pids(self) -> dict[str, int]:
        """Return the process id of each running program by name."""
        return self._group.pids()

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        env: Mapping[str, str],
        *,
        cwd: Path = ROOT,
        restart: bool = False,
        stop_limit_s: float = 10.0,
    ) -> int:
        """Add a program to the group, with its log in the home; return its process id.

        It is stopped before everything that was started earlier.

        Raises:
            CannotStart: when the name is in use or the program cannot be executed.
        """
        program = Program(
            name=name, argv=argv, env=env, cwd=cwd, log=self.log(name), restart=restart, stop_limit_s=stop_limit_s
        )
        return self._group.start(program)

    @property
    def public_url(self) -> str:
        """Address that people and agents use; differs from `url` behind a proxy."""
        return self.environment["MIDDLEWATCH_BASE_URL"]

    def manage(self, *argv: str) -> str:
        """Run a management command against this control plane and return what it printed.

        Raises:
            CannotStart: when it fails, with the end of what it complained.
        """
        done = subprocess.run(
            [*PYTHON, "django", *argv], check=False, cwd=ROOT, env=self.environment,
            capture_output=True, text=True, timeout=MANAGE_LIMIT_S,
        )  # fmt: skip
        if done.returncode:
            raise CannotStart(f"{' '.join(argv)} failed: {done.stderr[-800:].strip()}")
        return done.stdout

    def welcome(self) -> dict[str, str]:
        """Return `token` for enrolling nodes and, on the first start, `name`, `password` and `link` of the admin."""
        told: dict[str, str] = json.loads(self.manage("welcome"))
        return told

    def halt(self, name: str) -> None:
        """Stop one program and keep it down until `revive`."""
        self._group.stop(name)

    def revive(self, name: str) -> int:
        """Start a program that was halted or has ended; return its process id."""
        return self._group.start(self._group.program(name))

    def log(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.home.logs / f"{name}.log"

    def _choose_port(self) -> int:
        if self._wanted_port:
            if not is_free(self._wanted_port, self.host):
                raise CannotStart(f"Port {self._wanted_port} is taken; choose another, or none to get a free one.")
            return self._wanted_port
        last = self.home.recall("port")
        if isinstance(last, int):
            if is_free(last, self.host):
                return last
            self._say(f"Port {last} of the last start is taken, so the address changes; tell the agents.")
        return free_port(self.host)

    def _environment(self) -> dict[str, str]:
        """Return the environment of the programs; without what was meant for this process alone."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "MIDDLEWATCH_HOME": str(self.home.path),
            "MIDDLEWATCH_SECRET_KEY": os.environ.get("MIDDLEWATCH_SECRET_KEY") or self.home.secret("secret_key"),
            "MIDDLEWATCH_BASE_URL": os.environ.get("MIDDLEWATCH_BASE_URL") or self.url,
            "PYTHONUNBUFFERED": "1",
            **self._extra,
        }

    def _program(self, name: str, *argv: str | int) -> Program:
        words = [*PYTHON, *map(str, argv)]
        return Program(name=name, argv=words, env=self.environment, cwd=ROOT, log=self.log(name))

    def _web(self) -> Program:
        return self._program(
            "web", "uvicorn", "controlplane.asgi:application", "--host", self.host, "--port", self.port,
            "--timeout-keep-alive", KEEP_ALIVE_S, "--timeout-graceful-shutdown", 3, "--no-access-log",
        )  # fmt: skip

    def _worker(self) -> Program:
        return self._program(
            "worker", "celery", "-A", "controlplane.celery", "worker", "--pool", "threads",
            "--concurrency", WORKER_THREADS, "--without-mingle", "--without-gossip", "--without-heartbeat",
        )  # fmt: skip

    def _beat(self) -> Program:
        return self._program("beat", "celery", "-A", "controlplane.beat", "beat", "--pidfile", "")

    def _wait_for_page(self, web: Program) -> None:
        deadline = time.monotonic() + WEB_LIMIT_S
        host = LOOPBACK if self.host in EVERY_ADDRESS else self.host
        address = f"http://{_bracketed(host)}:{self.port}/healthz"
        while not _answers(address):
            if time.monotonic() > deadline or not self._group.running("web"):
                raise CannotStart(f"The web program does not answer. The end of {web.log}:\n{tail(web)}")
            time.sleep(POLL_S)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _given(variable: str, value: str | None) -> str:
    return os.environ.get(variable, "") if value is None else value


def _shown(host: str) -> str:
    return _bracketed(os.uname().nodename if host in EVERY_ADDRESS else host)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
