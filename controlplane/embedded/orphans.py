"""End a server that outlived the supervisor it belonged to.

After kill -9 the kernel signals the children, but a server may still be
closing its files, or may have been kept by a kernel that has no such tie.
Whoever holds the home's lock is the only rightful owner of its data, so a
server that still works in the data folder is an orphan.
"""

import contextlib
from pathlib import Path

import psutil

GRACE_S = 10.0


def end_orphans(data: Path, programs: frozenset[str]) -> list[int]:
    """Stop every server of these names that works in this folder; return their process ids."""
    found = [process for process in psutil.process_iter(["name", "cwd"]) if _works_in(process, data, programs)]
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(found, timeout=GRACE_S)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=GRACE_S)
    return [process.pid for process in found]


def _works_in(process: psutil.Process, data: Path, programs: frozenset[str]) -> bool:
    return process.info["name"] in programs and process.info["cwd"] == str(data)
