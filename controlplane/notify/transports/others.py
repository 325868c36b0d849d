"""The many other services, through Apprise, in a process of its own.

Apprise opens its own connections, so the process that runs it refuses every connection
to an address that we may not use (`controlplane.notify.appriser`), and is killed when it
takes too long.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime

from controlplane.domain.notify.retrying import Answer, Fate
from controlplane.notify.letters import Letter

LIMIT_S = 25.0
SHOWN = 200
TITLE_MAX = 120
PROGRAM = (sys.executable, "-m", "controlplane.notify.appriser")
ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def send(values: Mapping[str, str], letter: Letter, now: datetime, allowed: list[str]) -> Answer:
    """Let Apprise send a letter."""
    del now
    first, _, rest = letter.body.partition("\n")
    wish = {"url": values["url"], "title": first[:TITLE_MAX], "body": rest.strip() or first, "allowed": allowed,
            "severity": letter.severity}  # fmt: skip
    try:
        done = subprocess.run(
            PROGRAM, input=json.dumps(wish), capture_output=True, text=True, timeout=LIMIT_S, check=False,
            env=_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(fate=Fate.AGAIN, why=f"Apprise did not end within {LIMIT_S:.0f} s")
    return _judged(done.stdout)


def _environment() -> dict[str, str]:
    """Give the process no secret of ours and no proxy that would hide whom it talks to."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _judged(printed: str) -> Answer:
    try:
        said = json.loads(printed)
        fate, why = Fate(said["fate"]), str(said["why"])[:SHOWN]
    except (ValueError, KeyError, TypeError):
        return Answer(fate=Fate.AGAIN, why="Apprise ended without a word")
    return Answer(fate=fate, why=why, proof={"said": why or "Apprise reports success"})
