"""Small, careful file operations: private by mode, atomic by rename."""

import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def write_private(path: Path, text: str) -> None:
    """Replace a file at once and durably; only its owner may read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as out:
        os.fchmod(out.fileno(), PRIVATE_FILE)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter; an existing one keeps its mode."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return path


def read_text(path: Path | str, limit: int = 4096) -> str | None:
    """Give the stripped beginning of a file, or None where it cannot be read."""
    try:
        with open(path, "rb") as source:  # noqa: PTH123 - hot path
            return source.read(limit).decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return None
