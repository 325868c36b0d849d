"""The folder that one installation lives in: lock, secrets, remembered facts, logs.

```
<home>/lock           held while a control plane runs here
<home>/secrets.json   mode 0600: secret key and the servers' passwords
<home>/state.json     web port, digest of the migrations
<home>/logs/          one file for each process
<home>/servers/       PostgreSQL's and Valkey's data (or a pointer to them)
```
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlplane.embedded.errors import CannotStart

SECRETS = ("secret_key", "postgres_password", "valkey_password")
SECRET_BYTES = 36
HOME_MODE = 0o711  # others may pass through to `servers`, and see nothing


class Home:
    """One installation's folder; made when it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        try:
            self.path.mkdir(mode=HOME_MODE, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CannotStart(f"{self.path} cannot be used as home: {error.strerror}.") from None

    @property
    def logs(self) -> Path:
        """Folder of the log files."""
        return self.path / "logs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home for this process; the kernel lets go when the process ends, however it ends.

        Raises:
            CannotStart: when another control plane runs from this home.
        """
        with self._open_lock() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CannotStart(self._taken()) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def secret(self, name: str) -> str:
        """Return a secret of this home; all are made once, on the first call.

        Raises:
            CannotStart: when the file of secrets is damaged or closed to us.
        """
        file = self.path / "secrets.json"
        try:
            kept = self._read(file)
        except PermissionError:
            raise CannotStart(f"{file} belongs to another user; start Middlewatch as that user.") from None
        missing = {each: secrets.token_urlsafe(SECRET_BYTES) for each in SECRETS if each not in kept}
        if missing:
            kept |= missing
            self._write(file, kept)
        return str(kept[name])

    def recall(self, name: str) -> Any:
        """Return a remembered fact, or None."""
        return self._read(self.path / "state.json").get(name)

    def remember(self, name: str, value: Any) -> None:
        """Keep a fact for the next start; None forgets it."""
        file = self.path / "state.json"
        self._write(file, self._read(file) | {name: value})

    def _open_lock(self) -> Any:
        try:
            return os.fdopen(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+")
        except PermissionError:
            raise CannotStart(f"{self.path} belongs to another user; start Middlewatch as that user.") from None

    def _taken(self) -> str:
        holder = (self.path / "lock").read_text().strip() or "unknown"
        return (
            f"A control plane already runs from {self.path} (process {holder}). "
            "Stop it first, or set MIDDLEWATCH_HOME to another folder to run a second one."
        )

    @staticmethod
    def _read(file: Path) -> dict[str, Any]:
        try:
            content = json.loads(file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise CannotStart(f"{file} is damaged; restore it from a backup or move it away.") from None
        if not isinstance(content, dict):
            raise CannotStart(f"{file} is damaged; restore it from a backup or move it away.")
        return content

    @staticmethod
    def _write(file: Path, content: dict[str, Any]) -> None:
        """Replace the file so that a crash leaves the old or the new one, whole and private."""
        half = file.with_suffix(".new")
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(content, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        half.replace(file)
