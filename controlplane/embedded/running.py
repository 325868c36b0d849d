"""Let a command typed in another terminal speak to the servers that `make serve` runs.

Their ports and passwords are known to the running control plane alone, so it keeps
the addresses in its home (mode 0600) for as long as it runs. A command that was
given an address of its own looks at nothing.
"""

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from controlplane.embedded.home import Home

NAMES = ("DATABASE_URL", "REDIS_URL", "MIDDLEWATCH_SECRET_KEY", "MIDDLEWATCH_BASE_URL")
FACT = "environment"


def publish(home: Home, environment: Mapping[str, str]) -> None:
    """Keep the addresses of what runs from this home."""
    home.remember(FACT, {name: environment[name] for name in NAMES})


def withdraw(home: Home) -> None:
    """Forget them: nothing runs any more."""
    home.remember(FACT, None)


def join(environ: MutableMapping[str, str]) -> None:
    """Add the addresses of what runs from the home in `environ`, unless a database is named there or nothing runs."""
    if environ.get("DATABASE_URL"):
        return
    try:
        state = json.loads((Path(environ.get("MIDDLEWATCH_HOME") or "var") / "state.json").read_text())
    except (OSError, ValueError):
        return
    found = state.get(FACT) if isinstance(state, dict) else None
    for name, value in (found or {}).items():
        if name in NAMES:
            environ.setdefault(name, str(value))
