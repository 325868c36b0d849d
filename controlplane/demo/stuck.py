"""A folder that stops answering, made of pipes that nobody reads.

Whoever opens a pipe for writing waits in the kernel until a reader comes, as on a file
server that hangs. So the agents' write probes and the next shards of the checkpoints
meet pipes in their places, and no process is touched.
"""

import os
import stat
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROBE = ".middlewatch-probe"
AHEAD = 6
"""Checkpoints whose shards are blocked before they are written."""


def block(folder: Path, steps: Iterable[int], ranks: int) -> None:
    """Put pipes in the places of the probe file beside `folder` and of every rank's shard of `steps`."""
    pipes = [folder.parent / PROBE]
    for step in steps:
        place = folder / f"step-{step}"
        place.mkdir(parents=True, exist_ok=True)
        pipes += [place / f"__{rank}_0.distcp" for rank in range(ranks)]
    for pipe in pipes:
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)


def release(folder: Path) -> None:
    """Let everybody who waits go on, and take the pipes away."""
    for pipe in [folder.parent / PROBE, *folder.glob("step-*/*.distcp")]:
        with suppress(OSError):
            if not stat.S_ISFIFO(pipe.lstat().st_mode):
                continue
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            pipe.unlink(missing_ok=True)
            threading.Thread(target=_drain, args=(reader,), daemon=True).start()


def _drain(reader: int) -> None:
    """Swallow what is written until the last writer is gone."""
    time.sleep(0.2)
    os.set_blocking(reader, True)
    with suppress(OSError):
        while os.read(reader, 1 << 20):
            pass
    os.close(reader)
