"""`manage.py serve` as a person runs it: a process of its own, a terminal, Ctrl-C and worse."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from controlplane.embedded.accounts import Account, can_execute, identity
from controlplane.embedded.home import Home
from tests.patience import within
from tests.servers import temporary_home

pytestmark = [pytest.mark.xdist_group("plane"), pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parent.parent.parent
SECOND_START_LIMIT_S = 15.0
STOP_LIMIT_S = 30.0


class Serving:
    """A running `manage.py serve` and what it has printed."""

    def __init__(self, home, *argv, python=sys.executable, account=None, path=""):
        environment = {"PATH": "/usr/bin:/bin", "MIDDLEWATCH_HOME": str(home), "PYTHONPATH": path}
        self.home = home
        self.process = subprocess.Popen(
            [python, "manage.py", "serve", *argv], cwd=ROOT, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, **identity(account),
        )  # fmt: skip
        self.text = ""

    def ready(self):
        for line in self.process.stdout:
            self.text += line
            if "Ctrl-C" in line:
                return self
        raise AssertionError(f"serve ended: {self.text}")

    @property
    def url(self):
        return re.search(r"Pages +(\S+)", self.text)[1]

    def page(self):
        with urllib.request.urlopen(self.url + "/healthz", timeout=10) as answer:
            return answer.read()

    def members(self):
        """Every process that belongs to this home."""
        return [each for each in psutil.process_iter() if self._belongs(each)]

    def _belongs(self, process):
        try:
            return str(self.home) in " ".join(
                [process.cwd(), *process.cmdline(), process.environ().get("MIDDLEWATCH_HOME", "")]
            )
        except psutil.Error:
            return False

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        rest, _ = self.process.communicate(timeout=STOP_LIMIT_S)
        self.text += rest
        return self.process.returncode


@contextmanager
def serving(home, *argv, **kwargs):
    made = Serving(home, *argv, **kwargs)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.communicate()


@pytest.fixture
def fresh():
    """A home in which nothing was ever started."""
    with temporary_home() as path:
        yield path


def database_of(serving):
    web = next(each for each in serving.members() if "uvicorn" in " ".join(each.cmdline()))
    return web.environ()["DATABASE_URL"]


def sees_a_second_one_refused(home):
    with serving(home) as refused:
        text, _ = refused.process.communicate(timeout=60)
        assert refused.process.returncode == 1
        assert f"A control plane already runs from {home}" in text
        assert "Traceback" not in text


def test_a_home_survives_kill_9_of_everything_and_of_its_supervisor_alone(fresh):
    """Two starts in one story, because a start is what costs: all is told, no row is lost, nothing is left behind."""
    with serving(fresh) as first:
        first.ready()
        assert first.page() == b"ok\n"
        assert re.search(r"admin with the one-time password \S{8,}", first.text)
        assert re.search(
            rf"middlewatch-agent enrol --url {first.url} --token \S+ --name NAME --state DIR "
            r"&& middlewatch-agent run --state DIR", first.text,
        )  # fmt: skip
        with psycopg.connect(database_of(first)) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS row")
        for process in first.members():
            with suppress(psutil.NoSuchProcess):  # a helper of PostgreSQL may have just ended by itself
                process.kill()
    began = time.monotonic()
    with serving(fresh) as second:
        second.ready()
        assert time.monotonic() - began < within(SECOND_START_LIMIT_S)
        assert second.page() == b"ok\n"
        assert second.url == first.url
        assert "password" not in second.text
        with psycopg.connect(database_of(second)) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)
        sees_a_second_one_refused(fresh)
        everything = second.members()
        second.process.kill()
        second.process.wait()
        psutil.wait_procs(everything, timeout=15)
        assert second.members() == []


def test_ctrl_c_during_the_start_ends_cleanly(fresh):
    with serving(fresh) as early:
        early.process.stdout.readline()
        time.sleep(1.0)
        assert early.stop() == 0
        assert early.members() == []


def test_a_port_that_is_no_port_is_refused(fresh):
    with serving(fresh, "--port", "70000") as refused:
        text, _ = refused.process.communicate(timeout=60)
        assert "--port: 70000 is not between 1 and 65535" in text


def an_ordinary_users_python():
    """Return a Python that an ordinary user can run, the path that gives it our packages, and whom to become."""
    if os.geteuid():
        return sys.executable, "", None
    nobody = Account.of(pwd.getpwnam("nobody"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if candidate and can_execute(nobody, Path(candidate)):
            site = next(path for path in sys.path if path.endswith("site-packages"))
            return candidate, ":".join([site, f"{ROOT}/agents/wire", f"{ROOT}/agents/node"]), nobody
    pytest.skip(f"needs a {version} that an ordinary user can run")


def test_an_ordinary_user_can_serve_and_ends_it_by_ctrl_c(fresh):
    python, path, nobody = an_ordinary_users_python()
    own = fresh / "own"
    own.mkdir(mode=0o700)
    uid = os.geteuid()
    if nobody:
        uid = nobody.uid
        os.chown(own, uid, nobody.gid)
    with serving(own, python=python, path=path, account=nobody) as user:
        user.ready()
        assert user.page() == b"ok\n"
        assert {process.uids().real for process in user.members()} == {uid}
        assert user.stop() == 0
        assert "Stopped." in user.text
        assert user.members() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to close a folder to others")
def test_root_can_serve_from_a_home_that_others_cannot_reach_beside_another_home(fresh, live_plane):
    closed = fresh / "closed"
    closed.mkdir(mode=0o700)
    with serving(closed / "var") as hidden:
        hidden.ready()
        servers = (closed / "var" / "servers").resolve()
        try:
            assert hidden.page() == b"ok\n"
            assert hidden.url != live_plane.url
            assert not servers.is_relative_to(closed)
            assert hidden.stop(signal.SIGTERM) == 0
            assert hidden.members() == []
        finally:
            shutil.rmtree(servers, ignore_errors=True)
    assert Home(closed / "var").recall("port")
