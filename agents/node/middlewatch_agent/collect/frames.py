"""One stack, in the shape of the wire and short enough for it."""

import re
from dataclasses import dataclass
from typing import Any

MAX_FRAMES = 64
MAX_FRAME_CHARS = 300
KEPT_PARTS = 3
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+) in ([^\n]*)')
_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Where a rank stands, innermost frame first. Not `ok`: the rank itself could not tell."""

    tool: str
    ok: bool
    frames: tuple[str, ...]
    thread: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The data of a `rank.stack` event."""
        thread = {"thread": self.thread} if self.thread else {}
        return {"tool": self.tool, "ok": self.ok, "frames": list(self.frames), **thread}


def frame(function: str, path: str, line: int | str) -> str:
    """One frame as text: the function, and the file without what all files of an installation share."""
    short = _LIBRARY.sub("", path) if _LIBRARY.match(path) else "/".join(path.split("/")[-KEPT_PARTS:])
    return f"{function} ({short}:{line})"[:MAX_FRAME_CHARS]


def main_thread(dump: str) -> tuple[str, ...]:
    """Frames of the main thread in a dump of `faulthandler`, which tells it last."""
    threads = [block for block in re.split(r"\n\s*\n", dump) if "Thread 0x" in block or "hread 0x" in block]
    if not threads:
        return ()
    found = (frame(function, path, line) for path, line, function in _FRAME.findall(threads[-1]))
    return tuple(found)[:MAX_FRAMES]
