"""The `[slurm]` part of launcher.toml: the machine's owner says how jobs are submitted, the network never does."""

from typing import Annotated, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Option = Literal[
    "account", "constraint", "cpus-per-task", "exclusive", "gpus-per-node", "gres", "licenses", "mem", "nice",
    "priority", "qos", "reservation", "time",
]  # fmt: skip
"""What may be added to a submission. Nodes, names, outputs, requeueing and dependencies are the adapter's own."""


Seconds = Annotated[int, msgspec.Meta(ge=0, le=3600)]
Port = Annotated[int, msgspec.Meta(ge=1024, le=65535)]


class SlurmConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How this cluster's Slurm is reached and what a job of ours looks like."""

    bin_dir: Text | None = None
    """Where the tools lie; without it they are found as a shell finds them."""
    conf: Text | None = None
    """Value of SLURM_CONF for the tools, where there are several clusters."""
    partition: Text | None = None
    options: dict[Option, str] = {}
    python: Text | None = None
    """The interpreter with this package on the compute nodes; without it the launcher's own."""
    poll_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 5.0
    """How often jobs and nodes are asked for while an attempt lives."""
    tool_s: Annotated[float, msgspec.Meta(ge=0.5, le=120)] = 15.0
    """How long a tool may take before its answer counts as unknown."""
    save_s: Seconds = 0
    """How long before its time limit a job is asked to save and end; 0: never. Slurm may be 60 s early."""
    wait_s: Seconds = 60
    """How long after the end of its first rank Slurm lets the others live, should nobody else end them; 0: for ever."""
    fence_s: Annotated[float, msgspec.Meta(ge=0.5, le=600)] = 10.0
    """How long after SIGKILL a node may take to tell the end of its processes before it is fenced."""
    fence_most: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 4
    """How many nodes one stop may fence; where more are silent the stop fails, and a later one may find fewer."""
    order_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    """How long after a fault a successor waits for a word before it goes on without one; 0: for ever."""
    ports: tuple[Port, Port] = (20_000, 29_999)
    """First and last port of which rank 0 of an attempt listens on one."""
