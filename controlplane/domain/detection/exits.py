"""What the end of one rank says: a cause, or the consequence of another's end.

The clock does not decide, because clocks differ between machines and victims often
report first; the way a process ended does (methods 7).
"""

import re
import signal as signals
from dataclasses import dataclass, replace

from controlplane.domain.detection import weights
from controlplane.domain.detection.state import RankState

KILL, TERM, ABORT = int(signals.SIGKILL), int(signals.SIGTERM), int(signals.SIGABRT)

RESET = re.compile(
    r"connection (was )?(reset|closed|refused|aborted)|closed by peer|reset by peer|broken pipe|remote process exited"
    r"|gloo.*(closed|reset)|socket.*(closed|reset)|lost connection",
    re.IGNORECASE,
)
TIMED_OUT = re.compile(r"tim(ed|e) ?-?out", re.IGNORECASE)
ABORTED = re.compile(r"watchdog|nccl.*abort|communicator was aborted|DistBackendError", re.IGNORECASE)
PLACE = re.compile(r"\[[^\[\]\s]{1,300}\.(?:cc|cpp|cu|h|hpp|py):\d{1,7}\]\s{0,9}")
"""The source line that libraries put before what they say."""
MAX_SAID = 160
"""Characters of an error that a sentence repeats; the whole stands with the event."""
CUDA = re.compile(r"CUDA error|cudaError|device-side assert", re.IGNORECASE)


VARIES = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+")
"""What differs between two failures of one kind: numbers, addresses, identifiers."""
MAX_SIGN = 120


@dataclass(frozen=True, slots=True)
class Exit:
    """`kind` names the way of ending in a word or two, `sign` the same failure from any rank, node, step or time.

    `open` leaves the cause open.
    """

    kind: str
    weight: float
    text: str
    open: bool = False
    sign: str = ""


def judge(rank: RankState) -> Exit:
    """Say what the end of a rank that died speaks for."""
    if rank.signal:
        return _signed(_by_signal(rank.signal))
    if rank.error:
        exit_ = _by_error(rank.error)
        return _signed(exit_, rank.error, rank.line) if exit_.weight > 0 else _signed(exit_)
    code = "unknown" if rank.exit_code is None else str(rank.exit_code)
    return _signed(Exit(f"exit {code}", 0.0, f"ended with status {code} and gave no reason", open=True))


def _signed(exit_: Exit, error: str = "", line: str = "") -> Exit:
    """Add the sign: what was said and where in the source, without what varies from one failure to the next."""
    said = VARIES.sub("#", " ".join(error.split()))[:MAX_SIGN].rstrip()
    where = f" at {line}" if line else ""
    return replace(exit_, sign=f"{said or exit_.kind}{where}")


def _by_signal(number: int) -> Exit:
    name = _name(number)
    if number == KILL:
        return Exit(name, weights.KILLED, f"was killed by signal 9 ({name}) of unknown origin")
    if number == TERM:
        return Exit(name, weights.TERMINATED, f"was asked to end by signal 15 ({name})")
    if number == ABORT:
        return Exit(name, weights.ABORTED, f"aborted itself (signal 6, {name})")
    return Exit(name, weights.FATAL_SIGNAL, f"died of signal {number} ({name})")


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _by_error(error: str) -> Exit:
    kind = error.split(":", 1)[0].strip() or "error"
    if RESET.search(error):
        return Exit("peer reset", weights.PEER_RESET, f"lost a peer ({_said(error)})")
    if ABORTED.search(error):
        return Exit("abort", weights.ABORTED, f"was aborted by its communication library ({_said(error)})")
    if TIMED_OUT.search(error):
        return Exit("time-out", weights.TIME_OUT, f"timed out waiting for a peer ({_said(error)})")
    if CUDA.search(error):
        return Exit(f"CUDA {kind}", weights.CUDA_ERROR, f"met a CUDA error ({_said(error)})")
    return Exit(kind, weights.EXCEPTION, f"raised {_short(error)}")


def _said(error: str) -> str:
    """Give the innermost words of an error that libraries have wrapped into each other."""
    return _short(PLACE.sub("", error).rpartition("Error: ")[2] or error)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_SAID else f"{words[: MAX_SAID - 1].rstrip()}…"
