"""Bring the database up to date, when there is something to bring.

Asking Django costs more than a second at each start, so the home remembers
which migrations were applied. Only a private database can be trusted to be as
it was left; any other is asked each time.
"""

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import django

from controlplane.embedded.errors import CannotStart
from controlplane.embedded.home import Home

MIGRATE_LIMIT_S = 600.0


def migrations_digest(root: Path) -> str:
    """Return a digest that changes whenever a migration, or Django itself, changes."""
    files = sorted(root.glob("controlplane/*/migrations/*.py"))
    names = [str(file.relative_to(root)) for file in files]
    return hashlib.sha256("\n".join([django.get_version(), *names]).encode()).hexdigest()


def migrate_if_needed(home: Home, env: Mapping[str, str], root: Path, *, fresh: bool, own: bool) -> None:
    """Apply the migrations unless this private database is known to have them all.

    Raises:
        CannotStart: when a migration fails; its output is in `<home>/logs/migrate.log`.
    """
    digest = migrations_digest(root)
    if own and not fresh and home.recall("migrations") == digest:
        return
    log = home.logs / "migrate.log"
    argv = [sys.executable, "-m", "django", "migrate", "--no-input"]
    with log.open("w") as stream:
        done = subprocess.run(
            argv, check=False, cwd=root, env=dict(env), stdout=stream, stderr=stream, timeout=MIGRATE_LIMIT_S
        )
    if done.returncode:
        raise CannotStart(f"The database cannot be migrated; {log} says why:\n{log.read_text()[-800:].strip()}")
    home.remember("migrations", digest)
