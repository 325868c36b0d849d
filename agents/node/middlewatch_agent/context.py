"""What the agent offers to the parts that plug into it.

The launcher and the collectors must run in a test with a ten-line stand-in, so
they see this small interface and never the agent itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from middlewatch_agent.config import AgentConfig
from middlewatch_agent.ranks.status import RankStatus

FINAL_STATES = frozenset({"succeeded", "failed", "refused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command that the control plane leased to this node.

    `deadline_ms` is already on this machine's clock (the known skew is taken off),
    or None where the control plane gave none.
    """

    command_id: str
    kind: str
    args: Mapping[str, Any]
    lease_s: float = 30.0
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended: `state` is `succeeded`, `failed` or `refused`."""

    state: str = "succeeded"
    exit_code: int | None = None
    output_tail: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class Handler(Protocol):
    """Carries out one kind of command.

    Called in a worker thread. An exception becomes the outcome `failed` with its
    message; past the deadline the agent reports `failed` and ignores the answer.
    """

    def __call__(self, command: Command, /) -> Outcome:
        """Do it and say how it ended."""


class AgentContext(Protocol):
    """The running agent as its plug-ins see it. Every method may be called from any thread."""

    @property
    def node(self) -> str:
        """Name of this node."""

    @property
    def state_dir(self) -> Path:
        """Folder that holds `agent.sock`, `ranks/` and `worker/`."""

    @property
    def config(self) -> AgentConfig:
        """Settings of the agent; `config.launcher` is the path of launcher.toml or None."""

    def found_ranks(self) -> Sequence[RankStatus]:
        """Living ranks without a status file: of jobs that know nothing of us, found by the patterns of `[[watch]]`."""

    def emit(self, event: Mapping[str, Any], urgent: bool = False) -> None:  # noqa: FBT001, FBT002
        """Spool `{"kind", "run"?, "attempt"?, "rank"?, "at_ms"?, "data"}`; `at_ms` defaults to now.

        Durable when it returns. Urgent events leave at once; the kinds that somebody
        waits for (`kinds.URGENT`) are urgent without being told so.
        """

    def emit_once(self, key: str, event: Mapping[str, Any], urgent: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Spool an event unless one with this key was spooled before, also by an earlier life of the agent."""

    def register_command(self, kind: str, handler: Handler, *, repeatable: bool = False) -> None:
        """Let `handler` carry out commands of a kind, if the node's allow-list names the kind.

        A command that was cut short by the death of the agent is run again when
        `repeatable`, and reported as failed otherwise.
        """

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Call from the agent's loop at an interval; the call must not block."""

    def add_reader(self, name: str, read: Callable[[], Mapping[str, Any] | None]) -> None:
        """Tell in each heartbeat how well something is seen: `ok`, `last_read_age_s`; None leaves it out."""

    def declare(self, capability: str) -> None:
        """Name something that this agent can do; it is told in `node.hello` (call it from `attach`)."""
