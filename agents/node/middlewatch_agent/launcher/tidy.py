"""Forget what long-gone attempts left in the state folders of nodes, or a year of restarts fills them."""

import re
from collections.abc import Iterator
from pathlib import Path

from middlewatch_agent.launcher.config import LauncherConfig

KEEP_ATTEMPTS = 20
FOLDERS = ("ranks", "logs", "worker")
_ENDING = re.compile(r"\.(\d{1,9})\.\d{1,9}\.(?:json|json\.claim|error|log|sock|sock\.stacks)")


def forget_old(config: LauncherConfig, run: str, newest: int) -> int:
    """Delete the files of a run's attempts that are `KEEP_ATTEMPTS` or more behind; gives how many."""
    gone = 0
    for path in _files(config, run):
        found = _ENDING.fullmatch(path.name.removeprefix(run))
        if found and int(found[1]) <= newest - KEEP_ATTEMPTS:
            path.unlink(missing_ok=True)
            gone += 1
    return gone


def _files(config: LauncherConfig, run: str) -> Iterator[Path]:
    for node in config.nodes.values():
        for folder in FOLDERS:
            yield from (path for path in (Path(node.state_dir) / folder).glob("*") if path.name.startswith(f"{run}."))
