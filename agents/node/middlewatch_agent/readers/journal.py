"""Follow the systemd journal through `journalctl`, for services and where /dev/kmsg is closed to us."""

import os
import shutil
import subprocess
from typing import Any

import msgspec

from middlewatch_agent.readers.base import Liveness, Outlet

MAX_PENDING = 1 << 20
MAX_CURSOR = 512
CHUNK = 64 << 10

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JournalReader:
    """A Reader over the output of a `journalctl --follow` of its own."""

    def __init__(self, source: str, match: list[str], outlet: Outlet, *, cursor: str | None) -> None:
        """Start `journalctl`; `match` is `["-k"]` or `["-u", unit]`. Raises OSError where it is missing."""
        program = shutil.which("journalctl")
        if program is None:
            raise FileNotFoundError("journalctl is not installed")
        self.source = source
        self._outlet = outlet
        self._pending = b""
        self._liveness = Liveness()
        place = [f"--after-cursor={cursor}"] if cursor else ["--boot"]
        command = [program, "--follow", "--no-pager", "--quiet", "--output=json", "--lines=all", *match, *place]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        assert self._child.stdout is not None  # noqa: S101 - told to Popen above
        self._out = self._child.stdout
        os.set_blocking(self._out.fileno(), False)

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._out.fileno()

    def read(self) -> None:
        """Take the lines that are there."""
        chunk = self._out.read(CHUNK)
        alive = chunk is None or chunk != b""
        self._liveness.looked(ok=alive)
        if not chunk:
            return
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > MAX_PENDING:
            self._pending, self._outlet.gap = b"", True
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = _decode(line)
        except (msgspec.MsgspecError, RecursionError):
            return
        text, stamp = entry.get("MESSAGE"), str(entry.get("__REALTIME_TIMESTAMP", ""))
        if isinstance(text, str) and stamp.isdigit():
            self._outlet.offer(text, int(stamp) // 1000, str(entry.get("__CURSOR", ""))[:MAX_CURSOR])

    def liveness(self) -> dict[str, object]:
        """Give `{ok, last_read_age_s}`; not `ok` when journalctl ended."""
        if self._child.poll() is not None:
            self._liveness.looked(ok=False)
        return self._liveness.told()

    def close(self) -> None:
        """End journalctl."""
        self._child.kill()
        self._child.wait()
        self._out.close()
