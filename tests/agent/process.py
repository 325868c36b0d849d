"""Real agents as child processes."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self


class AgentProcess:
    """`middlewatch-agent run` in a state folder, killed at the end of the `with` block."""

    def __init__(self, state: Path, url: str, *, config: str = "", node: str = "n01", token: str = "good") -> None:  # noqa: S107
        self.state = state
        self.url = url
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state / "token").write_text(token)
        (state / "token").chmod(0o600)
        settings = f'url = "{url}"\nnode = "{node}"\nkernel_log = "none"\nbackoff_max_s = 0.2\nflush_s = 0.1\n'
        (state / "agent.toml").write_text(settings + config)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True) -> Self:
        arguments = [sys.executable, "-m", "middlewatch_agent", "run", "--state", str(self.state)]
        with (self.state / "log").open("ab") as out:
            self.process = subprocess.Popen(arguments, stdout=out, stderr=out, start_new_session=True)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                    probe.connect(str(self.state / "agent.sock"))
                    return
            except OSError:
                assert self.process is not None
                assert self.process.poll() is None, self.log()
                time.sleep(0.01)
        raise AssertionError(self.log())

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(15)

    def log(self) -> str:
        return (self.state / "log").read_text()

    def send(self, *datagrams: dict[str, Any] | bytes) -> int:
        """Speak as a training hook; returns how many the agent took."""
        taken = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hook:
            try:
                hook.connect(str(self.state / "agent.sock"))
                for datagram in datagrams:
                    hook.send(datagram if isinstance(datagram, bytes) else json.dumps(datagram).encode())
                    taken += 1
            except OSError:
                return taken
        return taken

    def holds(self, number: int) -> bool:
        """Whether the spool has this training step on disk now: after the hook's word, before the acknowledgement."""
        query = "SELECT 1 FROM events WHERE kind = 'rank.step' AND CAST(body AS TEXT) ->> '$.data.step' = ?"
        with closing(sqlite3.connect(f"file:{self.state / 'spool.db'}?mode=ro", uri=True)) as spool:
            return spool.execute(query, [number]).fetchone() is not None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def step(number: int, **data: Any) -> dict[str, Any]:
    """Make the datagram of one training step."""
    return {
        "kind": "rank.step", "at_ms": 1795921331401, "run": "demo", "attempt": 1, "rank": 0,
        "data": {"step": number, **data},
    }  # fmt: skip
