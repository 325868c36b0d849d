"""Make every polite request to end look like Ctrl-C.

A service manager sends SIGTERM and a closing terminal SIGHUP; both deserve
the same clean stop as a person at the keyboard.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt inside on the first SIGINT, SIGTERM or SIGHUP; further ones do not disturb the stop."""
    before = {number: signal.signal(number, _interrupt) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
