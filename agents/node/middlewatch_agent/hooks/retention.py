"""Delete old checkpoints without ever touching what a run may need to come back.

The newest two complete ones always stay: the newest may turn out to hold a spoilt
state, and then the one before it is all there is.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from middlewatch_agent.dcp import verdict

KEEP = 3
LEAST_KEPT = 2


def prune(folder: Path, *, keep: int = KEEP) -> list[verdict.Verdict]:
    """Delete all but the newest `keep` complete checkpoints, and torn ones older than those; gives what went."""
    found = [verdict.judge(folder, step) for step in verdict.steps(folder)]
    complete = [one for one in found if one.state == "complete"]
    kept = complete[: max(keep, LEAST_KEPT)]
    if len(kept) < LEAST_KEPT:
        return []
    doomed = [one for one in found if one.step < kept[-1].step]
    for one in doomed:
        remove(Path(one.path))
    return doomed


def remove(path: Path) -> None:
    """Delete a checkpoint folder; from the first moment on it no longer looks like one."""
    going = path.with_name(f".deleting-{path.name}")
    with suppress(FileNotFoundError):
        path.rename(going)
    shutil.rmtree(going, ignore_errors=True)
