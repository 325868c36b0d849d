"""A PostgreSQL for one command: made from a prepared copy, reached through a socket, gone afterwards.

A replay must neither need a running control plane nor touch one.
Nothing here survives a power cut, and nothing needs to.
"""

import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from controlplane.embedded import places, prepared
from controlplane.embedded.accounts import server_account
from controlplane.embedded.binaries import find_postgres
from controlplane.embedded.interrupts import interruptible

SETTINGS = "controlplane.settings.replay"


@contextmanager
def serving(environ: MutableMapping[str, str], root: Path) -> Iterator[None]:
    """Run a fresh, migrated database and name it in `environ` for as long as the block runs.

    Ctrl-C, SIGTERM and SIGHUP end the block and take everything with them.

    Raises:
        CannotStart: when no PostgreSQL can be found or made to run.
    """
    forget_leftovers()
    with interruptible(), prepared.short_folder() as folder:
        account = server_account(folder)
        binary = places.reachable(find_postgres(), account)
        place = places.owned_folder(folder / "run", account)
        data = place / "data"
        prepared.copy(prepared.cluster(binary, account, root, folder), data, account)
        with prepared.running(binary, data, account, place):
            environ.update({**prepared.address(place), "DJANGO_SETTINGS_MODULE": SETTINGS})
            yield


def forget_leftovers() -> None:
    """Delete the folders of commands that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prepared.PREFIX}*-*"):
        owner = folder.name.removeprefix(prepared.PREFIX).split("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
