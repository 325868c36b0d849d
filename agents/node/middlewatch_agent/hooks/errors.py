"""Leave the exception that ends a rank where its shim finds it.

Torchelastic's `record` does this for entry points wrapped in it, and the file has
its shape. An exit code alone says that a rank failed; the exception says whether it
was the cause or only lost its peers.
"""

import json
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

MAX_MESSAGE_CHARS = 2_000
MAX_STACK_CHARS = 16_384


def leave_in(path: str) -> None:
    """Write an uncaught exception to `path`, then let the hook that was there before have it."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            write(Path(path), error)
        before(kind, error, trace)

    sys.excepthook = hook


def write(path: Path, error: BaseException) -> None:
    """Write one exception, unless another was written before; never raises."""
    stack = "".join(traceback.format_exception(error))[-MAX_STACK_CHARS:]
    message = {
        "message": f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS],
        "extraInfo": {"py_callstack": stack, "timestamp": str(int(time.time()))},
    }
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump({"message": message}, file)
    except OSError:
        return
