"""Find a place that the servers' account can reach.

A home or a clone below a closed folder such as /root (mode 0700) is out of
reach of an unprivileged account. Opening that folder would expose whatever
else lies in it, so the data, or a copy of the programs, go to a place of
their own below /var/lib instead. Its name follows from the path, so that the
next start finds the same place.
"""

import hashlib
import os
import shutil
from pathlib import Path

from controlplane.embedded.accounts import Account, can_enter, can_execute
from controlplane.embedded.binaries import Binary
from controlplane.embedded.errors import CannotStart

ELSEWHERE = Path("/var/lib/middlewatch")
PRIVATE = 0o700
PASSABLE = 0o711


def data_place(home: Path, account: Account | None) -> Path:
    """Return the folder that holds the servers' data folders, reachable by their account.

    Normally `<home>/servers`. Where that is out of reach, a folder below
    /var/lib/middlewatch, which `<home>/servers` then points to. It stays ours:
    the account owns only what `owned_folder` makes in it, so it can plant
    nothing where we write.

    Raises:
        CannotStart: when no such folder can be made.
    """
    inside = home / "servers"
    if inside.is_symlink():
        return _passable(inside.resolve())
    if account is None or inside.is_dir() or can_enter(account, home):
        return _passable(inside)
    outside = _passable(_elsewhere() / _digest(home))
    inside.symlink_to(outside)
    return outside


def reachable(binary: Binary, account: Account | None) -> Binary:
    """Return the program itself, or a copy that the account can start.

    Raises:
        CannotStart: when neither starts.
    """
    if account is None or can_execute(account, binary.program):
        return binary
    digest = _digest(binary.tree, str(binary.program.stat().st_mtime_ns))
    tree = _elsewhere() / f"programs-{digest}"
    if not tree.exists():
        _copy(binary.tree, tree)
    copied = Binary(tree / binary.program.relative_to(binary.tree), tree, binary.version)
    if not can_execute(account, copied.program):
        raise CannotStart(f"The account {account.name} can start neither {binary.program} nor {copied.program}.")
    return copied


def forget(home: Path) -> None:
    """Delete a home and whatever was placed elsewhere for it."""
    inside = home / "servers"
    if inside.is_symlink():
        shutil.rmtree(inside.resolve(), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def owned_folder(folder: Path, account: Account | None) -> Path:
    """Make a private folder that the account owns.

    Raises:
        CannotStart: when it cannot be made.
    """
    try:
        folder.mkdir(mode=PRIVATE, exist_ok=True)
        if account:
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    except OSError as error:
        raise CannotStart(f"{folder} cannot be used for data: {error.strerror}.") from None
    return folder


def _passable(folder: Path) -> Path:
    try:
        folder.mkdir(mode=PASSABLE, exist_ok=True)
    except OSError as error:
        raise CannotStart(f"{folder} cannot be used for data: {error.strerror}.") from None
    return folder


def _elsewhere() -> Path:
    try:
        ELSEWHERE.mkdir(mode=PASSABLE, parents=True, exist_ok=True)
    except OSError as error:
        raise CannotStart(
            f"The home cannot be reached by the servers' account, and {ELSEWHERE} cannot be made: {error.strerror}. "
            "Set MIDDLEWATCH_HOME to a folder that other accounts can pass through."
        ) from None
    return ELSEWHERE


def _copy(source: Path, target: Path) -> None:
    """Copy a tree so that it appears whole or not at all."""
    half = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copytree(source, half, symlinks=True)
    half.chmod(0o755)
    try:
        half.rename(target)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
        if not target.exists():
            raise


def _digest(path: Path, *more: str) -> str:
    return hashlib.sha256("\0".join([str(path.resolve()), *more]).encode()).hexdigest()[:16]
