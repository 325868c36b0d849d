"""Play GPU readings from a file, so that a GPU node's events can be seen on any machine.

The file holds `{"gpus": [identity…], "frames": [[reading…], …]}`; each read gives
the next frame, and the last one for ever.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from middlewatch_agent.gpu.base import GpuError, GpuIdentity

MAX_BYTES = 16 << 20


class Recording(Struct, kw_only=True):
    """Content of the file."""

    gpus: list[GpuIdentity]
    frames: list[list[dict[str, Any]]]


class RecordedGpus:
    """A GpuSource that has seen it all before."""

    def __init__(self, path: Path) -> None:
        """Read the file; raises GpuError naming what is wrong with it."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise GpuError(f"{path}: larger than {MAX_BYTES} bytes")
            self._recording = msgspec.json.decode(path.read_bytes(), type=Recording)
        except (OSError, msgspec.MsgspecError) as error:
            raise GpuError(f"{path}: {error}") from error
        self._next = 0

    def identify(self) -> Sequence[GpuIdentity]:
        """Give the recorded GPUs."""
        return self._recording.gpus

    def read(self) -> Sequence[dict[str, Any]]:
        """Give the next frame."""
        frames = self._recording.frames
        if not frames:
            return ()
        frame = frames[min(self._next, len(frames) - 1)]
        self._next += 1
        return frame
