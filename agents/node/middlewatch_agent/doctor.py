"""Answer "why does this node not report?" in plain words, one line for each thing that can be wrong."""

import os
import shutil
import socket
import ssl
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from middlewatch_agent import lock
from middlewatch_agent.config import AgentConfig
from middlewatch_agent.files import read_text
from middlewatch_agent.poller import measure_skew
from middlewatch_agent.transport import Connection, UnreachableError

GOOD, DOUBT, BAD = "ok  ", "hint", "BAD "
MAX_SKEW_MS = 2_000
TIMEOUT_S = 5.0
MIN_FREE_BYTES = 256 << 20
SPOOL_DOUBT = 0.5


class Verdict(NamedTuple):
    """One finding: `ok`, a hint that something is missing, or BAD: the node does not report as it should."""

    mark: str
    topic: str
    text: str

    @property
    def status(self) -> int:
        """Exit status that this verdict asks for."""
        return 1 if self.mark == BAD else 0


def examine(state_dir: Path, config: AgentConfig) -> Iterator[Verdict]:
    """Give every verdict; network checks stop at the first that fails, since the others would fail with it."""
    yield from _network(state_dir, config)
    yield from _local(state_dir, config)


def _network(state_dir: Path, config: AgentConfig) -> Iterator[Verdict]:
    if not config.url:
        yield Verdict(BAD, "address", "no control plane is named; enrol this node")
        return
    parts = urllib.parse.urlsplit(config.url)
    for check in (_name, _route, _tls):
        verdict = check(parts, config)
        yield verdict
        if verdict.mark == BAD:
            return
    yield _clock(config)
    yield _token(state_dir, config)


def _name(parts: urllib.parse.SplitResult, _config: AgentConfig) -> Verdict:
    try:
        found = socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return Verdict(BAD, "name", f"{parts.hostname} has no address: {error}")
    return Verdict(GOOD, "name", f"{parts.hostname} is {found[0][4][0]}")


def _route(parts: urllib.parse.SplitResult, _config: AgentConfig) -> Verdict:
    try:
        socket.create_connection((parts.hostname, _port(parts)), TIMEOUT_S).close()
    except OSError as error:
        return Verdict(BAD, "connection", f"{parts.hostname} port {_port(parts)} cannot be reached: {error}")
    return Verdict(GOOD, "connection", f"port {_port(parts)} answers")


def _tls(parts: urllib.parse.SplitResult, config: AgentConfig) -> Verdict:
    if parts.scheme != "https":
        return Verdict(DOUBT, "TLS", "the connection is not encrypted (http)")
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
        with socket.create_connection((parts.hostname, _port(parts)), TIMEOUT_S) as plain:
            context.wrap_socket(plain, server_hostname=parts.hostname).close()
    except OSError as error:
        return Verdict(BAD, "TLS", f"the certificate is not accepted: {error}")
    return Verdict(GOOD, "TLS", "the certificate is accepted")


def _clock(config: AgentConfig) -> Verdict:
    try:
        skew_ms = measure_skew(Connection(config.url, ca_file=config.ca_file, answer_s=TIMEOUT_S))
    except UnreachableError as error:
        return Verdict(BAD, "clock", f"no answer: {error}")
    if skew_ms is None:
        return Verdict(BAD, "clock", "what answers there is not a control plane of Middlewatch")
    ahead = "behind" if skew_ms > 0 else "ahead of"
    text = f"this clock is {abs(skew_ms) / 1000:.1f} s {ahead} the control plane's"
    return Verdict(BAD if abs(skew_ms) > MAX_SKEW_MS else GOOD, "clock", text)


def _token(state_dir: Path, config: AgentConfig) -> Verdict:
    token = read_text(state_dir / "token")
    if not token:
        return Verdict(BAD, "token", "there is none; enrol this node")
    try:
        connection = Connection(config.url, ca_file=config.ca_file, answer_s=TIMEOUT_S)
        answer = connection.request("POST", "/api/v1/ingest", b"{}", token=token)  # refused, but by whom?
    except UnreachableError as error:
        return Verdict(BAD, "token", f"no answer: {error}")
    if answer.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return Verdict(GOOD, "token", "accepted")
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Verdict(BAD, "token", "not accepted; it was revoked or replaced: enrol this node again")
    return Verdict(BAD, "token", f"could not be tried: the control plane answered {answer.status}")


def _local(state_dir: Path, config: AgentConfig) -> Iterator[Verdict]:
    yield _agent(state_dir)
    checks: list[Callable[[], Verdict]] = [
        lambda: _folder(state_dir), lambda: _disk(state_dir), lambda: _spool(state_dir, config),
        lambda: _socket(state_dir), lambda: _kernel_log(config), _stacks, lambda: _gpu(config),
    ]  # fmt: skip
    if config.launcher:
        checks.append(lambda: _launcher(str(config.launcher)))
    for check in checks:
        yield check()


def _agent(state_dir: Path) -> Verdict:
    pid = lock.holder(state_dir) if state_dir.exists() else None
    if pid is None:
        return Verdict(DOUBT, "agent", f"none runs in {state_dir}")
    return Verdict(GOOD, "agent", f"runs as process {pid}")


def _folder(state_dir: Path) -> Verdict:
    if not os.access(state_dir, os.R_OK | os.W_OK | os.X_OK):
        return Verdict(BAD, "state folder", f"{state_dir} is missing or not writable")
    for path in (state_dir, state_dir / "token"):
        if path.exists() and path.stat().st_mode & 0o077 and path.name == "token":
            return Verdict(BAD, "state folder", f"others may read {path}; chmod 600 it")
    return Verdict(GOOD, "state folder", f"{state_dir} is writable")


def _disk(state_dir: Path) -> Verdict:
    from middlewatch_agent.disks import Disk  # noqa: PLC0415

    told = Disk(str(state_dir)).read(TIMEOUT_S)
    if "error" in told:
        return Verdict(BAD, "disk", f"a write fails: {told['error']}")
    took_ms, free = told.get("write_probe_ms", 0.0), told.get("free_bytes", 0)
    text = f"{free >> 20} MiB free, a synced write takes {took_ms:.1f} ms"
    bad = free < MIN_FREE_BYTES or took_ms > TIMEOUT_S * 1000
    return Verdict(BAD if bad else GOOD, "disk", text)


def _spool(state_dir: Path, config: AgentConfig) -> Verdict:
    from middlewatch_agent.spool.report import describe  # noqa: PLC0415

    text = describe(state_dir / "spool.db").splitlines()[0]
    if text.startswith("The spool cannot"):
        return Verdict(BAD, "spool", text)
    size = int(text.partition("(")[2].split()[0]) if "(" in text else 0
    full = size > config.spool.max_bytes * SPOOL_DOUBT
    return Verdict(DOUBT if full else GOOD, "spool", text)


def _socket(state_dir: Path) -> Verdict:
    path = str(state_dir / "agent.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(path)
        except FileNotFoundError:
            return Verdict(DOUBT, "hook socket", "not there; it appears when the agent runs")
        except OSError as error:
            return Verdict(BAD, "hook socket", f"{path}: {error}; training hooks drop what they have to say")
    return Verdict(GOOD, "hook socket", "training hooks are heard")


def _kernel_log(config: AgentConfig) -> Verdict:
    if config.kernel_log == "none":
        return Verdict(DOUBT, "kernel log", "switched off in the settings; hardware faults stay unseen")
    try:
        os.close(os.open(config.kmsg_path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        if config.kernel_log != "kmsg" and shutil.which("journalctl"):
            return Verdict(DOUBT, "kernel log", f"{config.kmsg_path}: {error.strerror}; the journal is read instead")
        return Verdict(BAD, "kernel log", f"{config.kmsg_path}: {error.strerror}; needs root or CAP_SYSLOG")
    return Verdict(GOOD, "kernel log", f"{config.kmsg_path} is readable")


def _stacks() -> Verdict:
    beside_us = str(Path(sys.executable).parent)
    if not (shutil.which("py-spy") or shutil.which("py-spy", path=beside_us)):
        return Verdict(DOUBT, "stacks", "py-spy is not installed; stacks come from the training hooks alone")
    scope = read_text("/proc/sys/kernel/yama/ptrace_scope") or "0"
    if os.geteuid() != 0 and scope != "0":
        return Verdict(DOUBT, "stacks", f"py-spy may not look into other processes (ptrace_scope is {scope})")
    return Verdict(GOOD, "stacks", "py-spy may look into the ranks")


def _gpu(config: AgentConfig) -> Verdict:
    from middlewatch_agent.gpu.base import GpuError  # noqa: PLC0415
    from middlewatch_agent.gpu.choose import choose  # noqa: PLC0415

    began = time.monotonic()
    try:
        gpus = choose(config.gpu).identify()
    except GpuError as error:
        return Verdict(BAD, "GPUs", str(error))
    if not gpus:
        return Verdict(DOUBT, "GPUs", "none found on this machine")
    return Verdict(GOOD, "GPUs", f"{len(gpus)} ({gpus[0].model}), asked in {(time.monotonic() - began) * 1000:.0f} ms")


def _launcher(path: str) -> Verdict:
    from middlewatch_agent.launcher.config import ConfigError, load  # noqa: PLC0415

    try:
        load(Path(path))
    except ConfigError as error:
        return Verdict(BAD, "launcher", str(error))
    return Verdict(GOOD, "launcher", f"{path} can be used")


def _port(parts: urllib.parse.SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)
