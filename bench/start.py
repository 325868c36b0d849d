"""How long the control plane takes to its first page: on a new home, and on a second start."""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from controlplane.embedded.plane import ControlPlane
from tests.servers import temporary_home

SECOND_STARTS = 3
TARGET_S = 15.0


def start_s(home: Path) -> float:
    """Start, and return the seconds until a page was served."""
    began = time.monotonic()
    with ControlPlane(home, database_url="", redis_url=""):
        return time.monotonic() - began


def main() -> None:
    """Print the figures."""
    with temporary_home() as home:
        first = start_s(home)
        again = statistics.median(start_s(home) for _ in range(SECOND_STARTS))
    print(f"first start (new database, all migrations): {first:.1f} s")
    print(f"second start to the first page, median of {SECOND_STARTS}: {again:.1f} s (target: under {TARGET_S:.0f} s)")
    sys.exit(again > TARGET_S)


if __name__ == "__main__":
    main()
