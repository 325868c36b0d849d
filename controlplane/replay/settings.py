"""Read settings of a replay from the command line: `silence_s=20`, `modes.D-04=off`, `mode=ask`."""

from collections.abc import Sequence
from typing import Any

MODES = "modes."


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """Give the settings named; whether a run has them is seen when it is made.

    Raises:
        ValueError: a pair is no NAME=VALUE.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ValueError(f"--set {pair}: want NAME=VALUE")
        if name.startswith(MODES):
            found.setdefault("modes", {})[name.removeprefix(MODES)] = value
        else:
            found[name] = value if name == "mode" else _number(pair, value)
    return found


def _number(pair: str, value: str) -> float | None:
    if value in ("", "none"):
        return None
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"--set {pair}: {value} is no number") from None
