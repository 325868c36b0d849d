"""Choose the account that the private servers run as.

PostgreSQL refuses to run as root, and a server that listens has no need of
root anyway. An ordinary user simply runs the servers as himself. Nothing is
added to the machine: only accounts that exist are considered.
"""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from controlplane.embedded.errors import CannotStart

PREFERRED = ("postgres", "nobody", "daemon")
PROBE_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account with an entry in the password database."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> "Account":
        """Take what matters from a password entry."""
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)


class Identity(TypedDict, total=False):
    """The arguments of `subprocess` that change the account."""

    user: int
    group: int
    extra_groups: list[int]


def identity(account: Account | None) -> Identity:
    """Return what makes `subprocess` start a program as the account; nothing for ourselves."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def server_account(data: Path) -> Account | None:
    """Return the account for the servers; None means: as the current user.

    As root, data that exist already keep the owner they have, so that a later
    change of the machine's accounts does not lock a cluster out of its files.

    Raises:
        CannotStart: as root, when no unprivileged account exists.
    """
    if os.geteuid() != 0:
        return None
    entries = [*_owner(data), *(entry for name in PREFERRED for entry in _entry(name))]
    for entry in entries:
        if entry.pw_uid != 0:
            return Account.of(entry)
    raise CannotStart(f"PostgreSQL does not run as root, and none of the accounts {', '.join(PREFERRED)} exists.")


def can_enter(account: Account | None, folder: Path) -> bool:
    """Ask the kernel, as that account, whether the folder can be entered."""
    return _succeeds(account, "/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))


def can_execute(account: Account | None, program: Path) -> bool:
    """Ask the kernel, as that account, whether the program starts."""
    return _succeeds(account, str(program), "--version")


def _succeeds(account: Account | None, *argv: str) -> bool:
    try:
        done = subprocess.run(
            argv, check=False, cwd="/", timeout=PROBE_LIMIT_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            **identity(account),
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0


def _owner(data: Path) -> list[pwd.struct_passwd]:
    try:
        return [pwd.getpwuid(data.stat().st_uid)]
    except (OSError, KeyError):
        return []


def _entry(name: str) -> list[pwd.struct_passwd]:
    try:
        return [pwd.getpwnam(name)]
    except KeyError:
        return []
