"""A control plane in a process of its own, so that it can be killed as a whole.

`python -m tests.trouble.serving HOME` says on one line where it listens, and serves
until it is killed or its input ends.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from controlplane.embedded.plane import ROOT, ControlPlane


class Serving:
    """The supervisor process of a control plane, and the pids of everything below it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.start()

    def start(self) -> None:
        """Start it and wait until it serves."""
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "controlplane.settings.base"}
        with (self.home / "serving.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.home)], cwd=ROOT, env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        line = self.process.stdout.readline()
        assert line, (self.home / "serving.log").read_text()[-3000:]
        self.told = json.loads(line)

    def kill(self) -> None:
        """Kill the supervisor and every program in one instant, and wait until all are gone."""
        pids = [self.process.pid, *self.told["pids"].values()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            assert time.monotonic() < deadline, "a program outlived its kill"
            time.sleep(0.02)

    def close(self) -> None:
        """End it as Ctrl-C would."""
        self.process.stdin.close()
        self.process.wait(30)


def main(home: Path) -> None:
    # Durable, unlike in other tests: what was acknowledged has to survive the kill.
    with ControlPlane(home / "control", database_url="", redis_url="") as plane:
        known = {"url": plane.url, "database_url": plane.database_url, "pids": plane.pids()}
        if plane.fresh:
            welcome = json.loads(plane.manage("welcome", "--link"))
            known |= {"enrol": welcome["token"], "api": plane.manage("api-token", welcome["name"], "t").strip()}
        sys.stdout.write(json.dumps(known) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
