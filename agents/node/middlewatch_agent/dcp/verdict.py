"""Say whether a checkpoint folder can be resumed from, by evidence rather than by name.

Evidence (pointer files such as `latest` are claims and are not looked at):
`.metadata` is written last, so without it the save never ended; every shard it
names must be there and long enough; and no shard may be younger than it, or an
old marker stands beside the shards of a save that was cut off.
"""

import os
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from middlewatch_agent.dcp import metadata

MARKER = ".metadata"
FOLDER = re.compile(r"step-(\d{1,15})")
MAX_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One checkpoint folder: `state` is complete, saving or torn, `why` the evidence."""

    step: int
    path: str
    state: str
    why: str
    bytes: int
    files: int
    expected_files: int | None = None

    def as_json(self) -> dict[str, object]:
        """The shape of the `checkpoints.scan` answer."""
        return asdict(self)


def steps(folder: Path) -> list[int]:
    """Steps of the checkpoints that lie in a folder, newest first. A missing folder holds none."""
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted((int(found[1]) for found in map(FOLDER.fullmatch, names) if found), reverse=True)


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return folder / f"step-{step}"


def judge(folder: Path, step: int, *, live: bool = False) -> Verdict:
    """Judge the checkpoint of a step. `live`: an attempt runs, so an unfinished save may go on."""
    path = path_of(folder, step)
    try:
        files = _files(path)
        state, why, expected = _evidence(path, files, live=live)
    except OSError as error:
        files, state, why, expected = {}, "torn", f"cannot be read: {error.strerror}", None
    total = sum(entry.st_size for entry in files.values())
    return Verdict(
        step=step, path=str(path), state=state, why=why, bytes=total, files=len(files), expected_files=expected
    )


def scan(folder: Path, newest: int, *, live: bool = False) -> list[Verdict]:
    """Judge the newest checkpoints of a run, newest first."""
    return [judge(folder, step, live=live) for step in steps(folder)[:newest]]


def _files(path: Path) -> dict[str, os.stat_result]:
    found: dict[str, os.stat_result] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found[entry.name] = status
            if len(found) > MAX_FILES:
                raise OSError(0, f"more than {MAX_FILES} files")
    return found


def _evidence(path: Path, files: dict[str, os.stat_result], *, live: bool) -> tuple[str, str, int | None]:
    if MARKER not in files:
        return ("saving" if live else "torn"), "no .metadata: the save did not end", None
    if files[MARKER].st_size > metadata.MAX_METADATA_BYTES:
        return "torn", f".metadata is larger than {metadata.MAX_METADATA_BYTES} bytes", None
    try:
        needed = metadata.needed_bytes((path / MARKER).read_bytes())
    except metadata.UnreadableError as error:
        return "torn", f".metadata is not to be trusted: {error}", None
    fault = _fault(files, needed)
    return ("torn" if fault else "complete"), fault or _good(needed), len(needed) + 1


def _fault(files: dict[str, os.stat_result], needed: dict[str, int]) -> str | None:
    for name, length in sorted(needed.items()):
        if name not in files:
            return f"{name} is missing"
        if files[name].st_size < length:
            return f"{name} has {files[name].st_size} of {length} bytes"
        if files[name].st_mtime_ns > files[MARKER].st_mtime_ns:
            return f"stale marker: {name} is younger than .metadata"
    return None


def _good(needed: dict[str, int]) -> str:
    return f".metadata and {len(needed)} shard files of full length"
