"""Run a program of PostgreSQL that ends by itself, and leave nothing of it behind.

initdb has children of its own, which would outlive it for a moment where it alone is killed.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM

from controlplane.embedded.accounts import Account, identity
from controlplane.embedded.errors import CannotStart

LIMIT_S = 120.0
END_LIMIT_S = 5.0
"""Time to clear up after itself before it is killed."""
MAX_SAID = 800


def run(argv: Sequence[Path | str], account: Account | None, told: str = "") -> None:
    """Run a program as `account` with `told` as its input.

    Raises:
        CannotStart: when it fails; the message holds the end of what it said.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
        start_new_session=True, **identity(account),
    )  # fmt: skip
    with process:
        try:
            _, said = process.communicate(told, timeout=LIMIT_S)
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        raise CannotStart(f"{Path(argv[0]).name} failed: {said.strip()[-MAX_SAID:]}")


def _end(process: "subprocess.Popen[str]") -> None:
    """End it with its children; asked politely it waits for them."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGTERM)
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, SIGKILL)
