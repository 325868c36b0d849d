"""Judge checkpoints in a process of its own: whatever a broken file does to it, the launcher lives on."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from middlewatch_agent.dcp import scan as dcp_scan
from middlewatch_agent.launcher.base import StartError
from middlewatch_agent.launcher.config import LauncherConfig

TIMEOUT_S = 20.0
MAX_BYTES = 4 << 20
MAX_NEWEST = 100
COMPLETE = "complete"


def scan(config: LauncherConfig, run: str, newest: int, *, live: bool) -> Sequence[dict[str, Any]]:
    """Verdicts over the newest checkpoints of a run. Raises StartError where the scan fails."""
    folder = config.run(run).checkpoint_dir
    command = [sys.executable, "-m", dcp_scan.__name__, folder, str(min(max(newest, 1), MAX_NEWEST))]
    try:
        done = subprocess.run(
            [*command, *(["--live"] if live else [])], capture_output=True, timeout=TIMEOUT_S, check=True
        )
        return list(json.loads(done.stdout[:MAX_BYTES]))
    except subprocess.TimeoutExpired as error:
        raise StartError(f"the scan of {folder} took longer than {TIMEOUT_S:.0f} s") from error
    except subprocess.CalledProcessError as error:
        raise StartError(f"the scan of {folder} ended {error.returncode}: {error.stderr[-500:]!r}") from error


def newest_complete(config: LauncherConfig, run: str) -> int:
    """The step of the newest complete checkpoint; 0 where there is none. Raises StartError."""
    found = scan(config, run, MAX_NEWEST, live=False)
    return max((int(one["step"]) for one in found if one.get("state") == COMPLETE), default=0)
