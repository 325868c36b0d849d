"""Judge checkpoints in a process of its own: `python -m middlewatch_agent.dcp.scan FOLDER NEWEST [--live]`.

What is read here was written by others. A file made to eat memory or time then
ends this short-lived process and nothing else. Prints a JSON list, newest first.
"""

import json
import resource
import sys
from pathlib import Path

from middlewatch_agent.dcp import verdict

MAX_MEMORY_BYTES = 1 << 30
MAX_CPU_S = 15
MAX_OPEN_FILES = 64


def confine() -> None:
    """Bound what this process may use."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN_FILES, MAX_OPEN_FILES))


def main(arguments: list[str]) -> None:
    """Print the verdicts."""
    confine()
    folder, newest, live = Path(arguments[0]), int(arguments[1]), "--live" in arguments[2:]
    sys.stdout.write(json.dumps([found.as_json() for found in verdict.scan(folder, newest, live=live)]))


if __name__ == "__main__":
    main(sys.argv[1:])
