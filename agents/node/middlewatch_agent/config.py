"""Settings of one agent: `agent.toml` in its state folder, then the command line.

Every setting has a default, so a freshly enrolled node runs with an address, a
name and a token alone. A mistake names the field and stops the start: an agent
that guesses is worse than one that does not run.
"""

import os
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from middlewatch_wire.limits import MAX_NAME
from msgspec import Meta, Struct

from middlewatch_agent.files import write_private

CONFIG_FILE = "agent.toml"
DEFAULT_COMMANDS = (
    "collect", "attempt.start", "attempt.stop", "checkpoints.scan", "ranks.stop", "switch.arm", "switch.disarm",
    "check.run", "support.bundle", "job.hold", "job.release", "job.queue", "nodes.drain", "nodes.resume",
)  # fmt: skip
"""All kinds that hurt nothing on purpose: each does only what this node's own files describe. `commands` narrows it."""
MAX_CONFIG_BYTES = 1 << 20
MAX_SOURCES = 32
MAX_CHECKS = 64
MAX_ARGUMENTS = 128
MAX_CHECK_S = 86_400.0
BACKOFF_BEATS = 3.0
"""Six missed heartbeats count as silence, so whoever backed off during an outage must be back in half of that."""

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(gt=0)]
Argument = Annotated[str, Meta(max_length=4096)]
Labels = Annotated[dict[str, str], Meta(max_length=64)]


class ConfigError(Exception):
    """The settings cannot be used; the message names the file and the field."""


class LogSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A service log to follow: a journal unit or a file."""

    source: str
    unit: str | None = None
    path: str | None = None


class WatchPattern(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to recognise the ranks of a job that knows nothing of Middlewatch.

    A process is a rank when its command line matches `cmdline` (a regular
    expression) and its environment holds every pair of `env` (`*`: any value).
    """

    run: str
    cmdline: str
    env: dict[str, str] = {}
    attempt: Count = 1
    rank_env: str = "RANK"
    local_rank_env: str = "LOCAL_RANK"
    log: str | None = None  # may hold {rank}, {local_rank} and {pid}


class Check(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A check that `check.run` may start by its name: exit code 0 passes, 1 fails, anything else says nothing."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    command: Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=MAX_ARGUMENTS)]
    timeout_s: Annotated[float, Meta(gt=0, le=MAX_CHECK_S)] = 60.0


class SpoolLimits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much may wait, on disk and (when the disk fails) in memory."""

    max_bytes: Count = 64 << 20
    max_events: Count = 200_000
    memory_bytes: Count = 4 << 20
    memory_events: Count = 10_000


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings; see docs/agent.md for each."""

    url: str = ""
    node: str = ""
    ca_file: str | None = None
    heartbeat_s: Seconds = 5.0
    health_s: Seconds = 15.0
    flush_s: Seconds = 5.0
    poll_s: Seconds = 25.0
    backoff_max_s: Seconds | None = None
    labels: Labels = {}
    commands: tuple[str, ...] = DEFAULT_COMMANDS
    gpu: str = "auto"  # auto, none, nvml, recorded:<file>
    kernel_log: str = "auto"  # auto, kmsg, journal, none
    kmsg_path: str = "/dev/kmsg"
    logs: Annotated[tuple[LogSource, ...], Meta(max_length=MAX_SOURCES)] = ()
    watch: Annotated[tuple[WatchPattern, ...], Meta(max_length=MAX_SOURCES)] = ()
    checks: Annotated[tuple[Check, ...], Meta(max_length=MAX_CHECKS)] = ()
    disks: Annotated[tuple[str, ...], Meta(max_length=MAX_SOURCES)] = ()
    spool: SpoolLimits = msgspec.field(default_factory=SpoolLimits)
    launcher: str | None = None

    def longest_pause_s(self) -> float:
        """Give the longest wait between two tries: shorter than what the control plane takes for silence."""
        return BACKOFF_BEATS * self.heartbeat_s if self.backoff_max_s is None else self.backoff_max_s


def default_state_dir() -> Path:
    """Give the folder used when `--state` is absent."""
    if chosen := os.environ.get("MIDDLEWATCH_STATE"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/middlewatch")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "middlewatch"


def load(state_dir: Path, overrides: Mapping[str, Any] | None = None) -> AgentConfig:
    """Read `agent.toml` (absent: all defaults) and lay `overrides` that are not None over it.

    Raises ConfigError naming the file and the field.
    """
    path = state_dir / CONFIG_FILE
    values = {**_read(path), **{key: value for key, value in (overrides or {}).items() if value is not None}}
    try:
        config = msgspec.convert(values, AgentConfig, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    _check_url(config.url)
    _check_name(config.node)
    _check_checks(config.checks)
    return msgspec.structs.replace(config, node=config.node or socket.gethostname())


def save(state_dir: Path, values: Mapping[str, str]) -> Path:
    """Write top-level string settings to `agent.toml`, keeping those that are already there."""
    path = state_dir / CONFIG_FILE
    kept = path.read_text() if path.exists() else ""
    lines = [line for line in kept.splitlines() if line.partition("=")[0].strip() not in values]
    head = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in values.items()]
    write_private(path, "\n".join([*head, *lines]) + "\n")
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_CONFIG_BYTES} bytes")
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_url(url: str) -> None:
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"url: {url!r} must start with http:// or https://")


def _check_name(node: str) -> None:
    if len(node) > MAX_NAME or not node.isprintable():
        raise ConfigError(f"node: at most {MAX_NAME} printable characters are allowed")


def _check_checks(checks: tuple[Check, ...]) -> None:
    names = [check.name for check in checks]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"checks: {name!r} is there twice")
