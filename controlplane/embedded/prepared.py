"""A PostgreSQL data folder that is migrated already, kept to be copied.

Making a cluster and migrating it takes seconds, copying one that is ready takes a tenth of
that, so the ready one is kept below `~/.cache/middlewatch` under a digest of everything
that shaped it. Replays begin with a copy, and so do control planes that are not to stay;
an installation makes a cluster of its own.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGQUIT

import psycopg

from controlplane.embedded import places, tools
from controlplane.embedded.accounts import Account, can_enter
from controlplane.embedded.binaries import Binary
from controlplane.embedded.child import POLL_S, Child, Program, server_environment, wait_until
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.migrate import migrations_digest
from controlplane.embedded.postgres import DATABASE, FAST_AND_LOSSY, USER

SETTINGS = "controlplane.settings.base"
READY_LIMIT_S = 60.0
STOP_LIMIT_S = 5.0
MIGRATE_LIMIT_S = 300.0
PREFIX = "mw-replay-"
"""Begins the name of a folder that is gone with its command, before the number of its process."""
KEPT = 3
"""Prepared clusters that are kept; older ones are of code that is gone."""
SOCKET_NAME = "s"
LEAN = {
    **FAST_AND_LOSSY,
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "max_connections": "10",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "checkpoint_timeout": "1d",
    "max_wal_size": "4GB",
}
"""One client, no durability, no helpers: whatever only costs time is off."""


def cluster(binary: Binary, account: Account | None, root: Path, spare: Path) -> Path:
    """Return the data folder of a migrated cluster, made once; below `spare` where nothing can be kept.

    Raises:
        CannotStart: when it cannot be made.
    """
    digest = _digest(binary, root)
    cache = _cache(account) or spare
    kept = cache / f"replay-{digest}"
    if (kept / "data" / "PG_VERSION").exists():
        return kept / "data"
    with _locked(cache / "replay.lock"):
        if not (kept / "data" / "PG_VERSION").exists():
            _make(binary, account, root, kept)
            _drop_old(cache, kept)
    return kept / "data"


def copy(source: Path, target: Path, account: Account | None) -> None:
    """Copy a prepared cluster, as the account that will serve it."""
    os.utime(source.parent)
    tools.run(["cp", "-a", f"{source}/.", target], account)


def fill(root: Path, binary: Binary, folder: Path, account: Account | None, password: str) -> None:
    """Make the cluster of a control plane in its empty folder: a copy that the password alone opens to the network.

    Raises:
        CannotStart: when it cannot be made.
    """
    copy(cluster(binary, account, root, folder.parent), folder, account)
    change = f"ALTER ROLE {USER} PASSWORD '{password}'\n"
    tools.run([binary.program, "--single", "-F", "-D", folder, DATABASE], account, change)


@contextmanager
def short_folder() -> Iterator[Path]:
    """Give a folder that the server's account may pass through, and delete it afterwards.

    The kernel takes a hundred bytes for the path of a socket, and a home may lie deeper than that.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    folder.chmod(places.PASSABLE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def address(place: Path) -> dict[str, str]:
    """Return the environment that leads to the server whose socket lies in `place`, which needs no Redis."""
    return {"DATABASE_URL": f"postgresql://{USER}@/{DATABASE}?host={place / SOCKET_NAME}", "REDIS_URL": ""}


@contextmanager
def running(binary: Binary, data: Path, account: Account | None, place: Path) -> Iterator[None]:
    """Run the server in `data`, with its socket in `place`."""
    sockets = places.owned_folder(place / SOCKET_NAME, account)
    log = data.parent.with_name(f"{data.parent.name}.log")
    child = Child(_program(binary, data, sockets, log, account), time.time())
    try:
        _wait_ready(child, sockets, log)
        yield
    finally:
        child.stop()
        log.unlink(missing_ok=True)


def _digest(binary: Binary, root: Path) -> str:
    """Name what shapes a prepared cluster: the server's version, the settings, and migrations by name and content."""
    digest = hashlib.sha256(f"{migrations_digest(root)} {binary.version} {SETTINGS}".encode())
    for file in sorted(root.glob("controlplane/*/migrations/*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _cache(account: Account | None) -> Path | None:
    """Return where prepared clusters are kept, None when no such folder can be had."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        cache = base / "middlewatch" if account is None or can_enter(account, base) else places.ELSEWHERE
        cache.mkdir(mode=places.PASSABLE, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return cache if os.access(cache, os.W_OK) else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(binary: Binary, account: Account | None, root: Path, kept: Path) -> None:
    """Make, migrate and stop a cluster beside its final place, so that it appears whole or not at all."""
    half = kept.with_name(f"{kept.name}.{os.getpid()}")
    shutil.rmtree(half, ignore_errors=True)
    try:
        data = places.owned_folder(half, account) / "data"
        tools.run([binary.beside("initdb"), "-D", data, "-U", USER, "-E", "UTF8", "--no-locale", "-N",
                   "--auth-local=trust", "--auth-host=scram-sha-256"], account)  # fmt: skip
        with short_folder() as place, running(binary, data, account, place):
            _migrate(place, root)
        with contextlib.suppress(OSError):
            half.rename(kept)  # somebody else, with other locks, may have been faster
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _migrate(place: Path, root: Path) -> None:
    environment = {
        **os.environ,
        **address(place),
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "MIDDLEWATCH_SECRET_KEY": secrets.token_urlsafe(),
    }
    argv = [sys.executable, "-m", "django", "migrate", "--no-input", "--verbosity", "0"]
    done = subprocess.run(
        argv, check=False, cwd=root, env=environment, capture_output=True, text=True, timeout=MIGRATE_LIMIT_S
    )
    if done.returncode:
        raise CannotStart(f"The prepared database cannot be migrated: {done.stderr[-800:].strip()}")


def _drop_old(cache: Path, kept: Path) -> None:
    others = [item for item in cache.glob("replay-*") if item.is_dir() and item != kept]
    for item in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(item, ignore_errors=True)


def _program(binary: Binary, data: Path, sockets: Path, log: Path, account: Account | None) -> Program:
    """Describe the server; it leaves at once when told, unless it is the one whose data are kept."""
    options = [part for name, value in LEAN.items() for part in ("-c", f"{name}={value}")]
    options += ["-c", f"unix_socket_directories={sockets}"]
    return Program(
        name="postgres", argv=[binary.program, "-D", data, *options], env=server_environment(), cwd=Path("/"),
        log=log, account=account, stop_limit_s=STOP_LIMIT_S, orphaned=SIGQUIT,
    )  # fmt: skip


def _wait_ready(child: Child, sockets: Path, log: Path) -> None:
    wait_until(lambda: child.ended() or any(sockets.iterdir()), READY_LIMIT_S)
    deadline = time.monotonic() + READY_LIMIT_S
    while not _ensure_database(sockets):
        if child.ended() or time.monotonic() > deadline:
            told = log.read_text(errors="replace")[-800:].strip()
            raise CannotStart(f"The prepared database does not start: {told}")
        time.sleep(POLL_S)


def _ensure_database(sockets: Path) -> bool:
    """Create the database unless it is there; False while the server does not answer."""
    try:
        with psycopg.connect(host=str(sockets), user=USER, dbname="postgres", autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if found is None:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    except psycopg.OperationalError:
        return False
    return True
