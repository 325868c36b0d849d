"""Say in the terminal what is broken, what Middlewatch does, and how far it is."""

import time
from typing import TextIO


class Narrator:
    """Prints lines with the time since the start; on a terminal a status line follows them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._began = time.monotonic()
        self._status = ""
        self._terminal = out.isatty()

    def chapter(self, text: str) -> None:
        """Begin a new part of the story."""
        self._line("")
        self._line(f"▌ {text}")

    def say(self, text: str) -> None:
        """Tell one thing that happened now."""
        self._line(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def told(self, seconds: float, text: str) -> None:
        """Repeat a sentence of the chronicle; `seconds` count from the fault."""
        self._line(f"  {seconds:+7.1f} s  {text}")

    def block(self, text: str) -> None:
        """Print lines as they are."""
        for line in text.splitlines():
            self._line(line)

    def status(self, text: str) -> None:
        """Show what is waited for; elsewhere than on a terminal nothing is printed."""
        if self._terminal and text != self._status:
            self._wipe()
            self._out.write(f"  … {text}")
            self._out.flush()
            self._status = text

    def _line(self, text: str) -> None:
        self._wipe()
        self._out.write(f"{text}\n")
        self._out.flush()

    def _wipe(self) -> None:
        if self._status:
            self._out.write("\r\x1b[K")
            self._status = ""
