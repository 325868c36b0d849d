"""Where a rank stands: what its launcher told it through the environment."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One rank of one attempt. Fields are None where the launcher said nothing."""

    rank: int = 0
    world_size: int = 1
    run: str = ""
    attempt: int = 0
    socket: str | None = None
    worker_socket: str | None = None
    checkpoint_dir: str | None = None
    resume_step: int | None = None
    skip: tuple[int, int] | None = None
    error_file: str | None = None

    def skips_at(self, step: int) -> int:
        """Give how many batches to leave out before `step` is made, 0 at every other step (methods 10).

        Add it to a counter that is saved with the checkpoint, so that it lasts.
        """
        return self.skip[1] - self.skip[0] + 1 if self.skip and step == self.skip[0] else 0


def read(environ: Mapping[str, str]) -> Place:
    """Read docs/architecture.md's environment of a rank; a number that is none counts as absent."""
    return Place(
        rank=_number(environ, "RANK") or 0,
        world_size=_number(environ, "WORLD_SIZE") or 1,
        run=environ.get("MIDDLEWATCH_RUN", ""),
        attempt=_number(environ, "MIDDLEWATCH_ATTEMPT") or 0,
        socket=environ.get("MIDDLEWATCH_SOCKET") or None,
        worker_socket=environ.get("MIDDLEWATCH_WORKER_SOCKET") or None,
        checkpoint_dir=environ.get("MIDDLEWATCH_CHECKPOINT_DIR") or None,
        resume_step=_number(environ, "MIDDLEWATCH_RESUME_STEP"),
        skip=_pair(environ, "MIDDLEWATCH_SKIP_BATCHES"),
        error_file=environ.get("TORCHELASTIC_ERROR_FILE") or None,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _pair(environ: Mapping[str, str], name: str) -> tuple[int, int] | None:
    first, _, last = environ.get(name, "").partition(":")
    if not all(part.isascii() and part.isdigit() for part in (first, last)) or int(first) > int(last):
        return None
    return int(first), int(last)
