"""What a run is, told by the machine's owner and never by the network.

The control plane names a run, an attempt and nodes; command, environment and
folders come from `launcher.toml` beside the head node's agent. So whoever takes
over the control plane can start and stop the owner's runs, and nothing else.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from middlewatch_agent.launcher.base import RefusedError
from middlewatch_agent.launcher.slurm import hostlist
from middlewatch_agent.launcher.slurm.settings import SlurmConfig

MAX_CONFIG_BYTES = 1 << 20
MAX_RANKS_PER_NODE = 64
MAX_GRACE_S = 600.0
NODE = "{node}"
"""Stands for the name of the node in its `state_dir`."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class ConfigError(Exception):
    """launcher.toml cannot be used; the message names the file and the field."""


class RunConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One run: the command of a rank and where its checkpoints lie."""

    command: Annotated[list[Text], msgspec.Meta(min_length=1)]
    checkpoint_dir: Text
    ranks_per_node: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS_PER_NODE)] = 1
    env: dict[str, str] = {}
    grace_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_GRACE_S)] = 2.0
    folder: Text | None = None
    """Working folder of the ranks; without it the folder of launcher.toml."""
    supports: list[Literal["skip_batches", "save_now", "stop_now"]] = []
    """What the workload can do: `skip_batches` leaves batches out as MIDDLEWATCH_SKIP_BATCHES says, `save_now`
    and `stop_now` ask the hooks whether a save or an end is wanted."""
    preload: list[Text] = []
    """Modules imported once, in a process that ranks are forked from; the command must be Python and a script."""


class NodeConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where a node's agent keeps its state: its socket and `ranks/`."""

    state_dir: Text


class LauncherConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    runs: dict[str, RunConfig]
    nodes: dict[str, NodeConfig]
    scheduler: Literal["local", "slurm"] = "local"
    slurm: SlurmConfig = SlurmConfig()

    def run(self, name: str) -> RunConfig:
        """The run of that name. Raises RefusedError where the owner configured none."""
        if name not in self.runs:
            raise RefusedError(f"run {name!r} is not in the launcher's configuration")
        return self.runs[name]

    def node(self, name: str) -> NodeConfig:
        """The node of that name. Raises RefusedError where the owner configured none."""
        if name not in self.nodes:
            raise RefusedError(f"node {name!r} is not in the launcher's configuration")
        return self.nodes[name]


def load(path: Path) -> LauncherConfig:
    """Read launcher.toml. Relative folders count from its own place. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG_BYTES} bytes")
    try:
        config = msgspec.convert(tomllib.loads(text.decode()), LauncherConfig)
        config = msgspec.structs.replace(config, nodes=_expanded(config.nodes))
    except (ValueError, msgspec.ValidationError) as error:  # also of the text and of TOML
        raise ConfigError(f"{path}: {error}") from error
    for name in (*config.runs, *config.nodes):
        if not NAME.fullmatch(name):
            raise ConfigError(f"{path}: {name!r} is not a name (letters, digits, `.`, `_`, `-`, at most 63)")
    for name, run in config.runs.items():
        if run.preload and config.scheduler != "local":
            raise ConfigError(
                f"{path}: runs.{name}.preload works under the local scheduler alone: under {config.scheduler} each "
                "node starts its ranks itself, and nothing there stays warm from one job to the next"
            )
        if run.preload and not _is_script(run.command):
            raise ConfigError(f"{path}: runs.{name}.preload needs a command of a Python interpreter and a script")
    return _absolute(config, path.absolute().parent)


def _expanded(nodes: Mapping[str, NodeConfig]) -> dict[str, NodeConfig]:
    """Let `nodes."n[1-4]"` stand for four nodes. Raises ValueError."""
    return {name: node for text, node in nodes.items() for name in hostlist.expand(text) or [text]}


def _is_script(command: list[str]) -> bool:
    return "python" in Path(command[0]).name and len(command) > 1 and command[1].endswith(".py")


def _absolute(config: LauncherConfig, base: Path) -> LauncherConfig:
    runs = {
        name: msgspec.structs.replace(
            run, checkpoint_dir=str(base / run.checkpoint_dir), folder=str(base / (run.folder or "."))
        )
        for name, run in config.runs.items()
    }
    nodes = {
        name: NodeConfig(state_dir=str(base / node.state_dir.replace(NODE, name)))
        for name, node in config.nodes.items()
    }
    return msgspec.structs.replace(config, runs=runs, nodes=nodes)
