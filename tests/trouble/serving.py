"""A control plane in a process of its own, so that it can be hurt in parts and killed as a whole.

`python -m tests.trouble.serving HOME` says on one line where it listens. Then it does
what each line of its input asks, `halt NAME`, `revive NAME` or `pids`, and answers with the
pids of its programs, until it is killed or its input ends.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from controlplane.embedded.plane import ROOT, ControlPlane

GONE_S = 20.0
COMMAND_S = 100.0
"""A drill lasts as long as the recovery that it measures, and Django may take long to start on a crowded machine."""
MANY_STORIES = {"MIDDLEWATCH_RUNS_AT_ONCE": "1000"}
"""Each story is a run of its own, and all of them break within minutes: here that is no storm."""
OF_THIS_TEST_RUN = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")


class Serving:
    """The supervisor process of a control plane."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.start()

    def start(self) -> None:
        """Start it and wait until it serves: at its old address, and with a database at a new one."""
        with (self.home / "serving.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.home)], cwd=ROOT, env=self._environment(), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self.told = self._answer()

    @property
    def url(self) -> str:
        return self.told["url"]

    @property
    def database_url(self) -> str:
        return self.told["database_url"]

    def pids(self) -> dict[str, int]:
        return self._ask("pids")

    def halt(self, name: str) -> None:
        """Stop one program or server and keep it down."""
        self._ask(f"halt {name}")

    def revive(self, name: str) -> None:
        self._ask(f"revive {name}")

    def manage(self, *argv: str) -> str:
        """Run a management command as a person would: the home says where the control plane is."""
        done = subprocess.run(
            [sys.executable, "manage.py", *argv], check=True, cwd=ROOT, env=self._environment(),
            stdout=subprocess.PIPE, text=True, timeout=COMMAND_S,
        )  # fmt: skip
        return done.stdout

    def kill(self) -> None:
        """Kill the supervisor and every program in one instant, and wait until all are gone."""
        supervisor = psutil.Process(self.process.pid)
        everything = [supervisor, *supervisor.children(recursive=True)]
        for process in everything:
            with suppress(psutil.NoSuchProcess):  # a helper of PostgreSQL may have just ended by itself
                process.kill()
        self.process.wait(GONE_S)
        assert not psutil.wait_procs(everything, GONE_S)[1], "a program outlived its kill"

    def close(self) -> None:
        """End it as Ctrl-C would."""
        self.process.stdin.close()
        self.process.wait(30)

    def _ask(self, what: str) -> Any:
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self.process.stdout.readline()
        assert line, (self.home / "serving.log").read_text()[-3000:]
        return json.loads(line)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in OF_THIS_TEST_RUN}
        return {**kept, **MANY_STORIES, "MIDDLEWATCH_HOME": str(self.home / "control")}


def main(home: Path) -> None:
    # Durable, unlike in other tests: what was acknowledged has to survive the kill.
    with ControlPlane(home / "control", database_url="", redis_url="", passing=True) as plane:
        _say(_known(plane))
        for line in sys.stdin:
            act, _, name = line.strip().partition(" ")
            if act in {"halt", "revive"}:
                getattr(plane, act)(name)
            _say(plane.pids())


def _known(plane: ControlPlane) -> dict[str, str]:
    known = {"url": plane.url, "database_url": plane.database_url}
    if plane.fresh:
        welcome = plane.welcome()
        known |= {"enrol": welcome["token"], "api": plane.manage("api-token", welcome["name"], "trouble").strip()}
    return known


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
