"""Jobs and nodes as Slurm tells them. Pure; understands Slurm 22.05 and newer ones.

The JSON of jobs changed its shape between versions: a state is a word or a list of
words, a number may be wrapped in `{"set", "infinite", "number"}`, an exit code may be a
raw wait status. The JSON of nodes differs so much that the lines of `scontrol`, alike
in all versions, are read instead.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from middlewatch_agent.launcher.slurm import hostlist

PENDING, RUNNING, COMPLETING = "PENDING", "RUNNING", "COMPLETING"
ACTIVE = frozenset({
    PENDING, RUNNING, COMPLETING, "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
    "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
})  # fmt: skip
"""Words of a job that may hold nodes now or later."""
MODIFIERS = (COMPLETING, "CONFIGURING", "REQUEUE_HOLD", "SPECIAL_EXIT")
SIGNAL_BASE = 128
SAVED = 85
"""Exit code of a batch script of ours whose ranks ended well because they were asked to: they are not finished."""
SPOILED = ("Prolog error", "Duplicate jobid", "batch job complete failure")
"""What Slurm writes on a node that could not begin a job."""
MAX_TEXT = 200
AFTER = re.compile(r"afterany:(\d{1,12})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. `nodes` of a completing job are those that have not ended it yet."""

    job_id: str
    state: str
    comment: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    """The jobs that it depends on and that have not ended."""
    exit_code: int | None = None
    submitted_s: int = 0
    ends_s: int = 0
    exclusive: bool = False

    @property
    def active(self) -> bool:
        """Whether it may hold nodes now or later."""
        return self.state in ACTIVE

    @property
    def held(self) -> bool:
        """Whether somebody keeps it from starting."""
        return self.reason.startswith("JobHeld")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `answers` is False when its daemon does not respond to the controller."""

    name: str
    state: str
    reason: str = ""
    address: str = ""
    host: str = ""
    owner: str = ""
    answers: bool = True


def unlaunched(job: Job, nodes: Mapping[str, Node]) -> Job:
    """Tell a job that a node could not begin from one that a person cancelled: Slurm calls both CANCELLED.

    A job that must not be requeued is cancelled by the node itself when its prolog fails
    or its number is taken. It has nodes and no exit code then, and one of them was drained.
    """
    if job.state != "CANCELLED" or job.exit_code:
        return job
    spoiled = any(nodes[name].reason.startswith(SPOILED) for name in job.nodes if name in nodes)
    return replace(job, state="LAUNCH_FAILED") if spoiled else job


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A reservation during which nodes will be away."""

    name: str
    nodes: tuple[str, ...]
    begins_s: float
    ends_s: float


def job_of(raw: Mapping[str, Any]) -> Job:
    """Read an entry of `squeue --json`."""
    words = _words(raw.get("job_state"))
    resources = raw.get("job_resources") or {}
    nodes = raw.get("nodes") or (resources.get("nodes") if isinstance(resources, Mapping) else "")
    exit_code = _exit_code(raw.get("exit_code"))
    state = next((word for word in MODIFIERS if word in words), words[0] if words else "")
    if state == "FAILED" and exit_code == SAVED:
        state = "PREEMPTED" if _number(raw.get("preempt_time")) else "TIMEOUT"
    return Job(
        job_id=str(raw.get("job_id", "")),
        state=state,
        comment=_text(raw.get("comment")),
        reason=_text(raw.get("state_reason")).removeprefix("None"),
        nodes=_nodes(nodes),
        excluded=_nodes(raw.get("excluded_nodes")),
        follows=tuple(AFTER.findall(str(raw.get("dependency") or ""))),
        exit_code=exit_code,
        submitted_s=_number(raw.get("submit_time")),
        ends_s=_number(raw.get("end_time")),
        exclusive=bool(_text(raw.get("resv_name"))),
    )


def node_of(line: str) -> Node:
    """Read a line of `scontrol -o show node`, which every version writes alike."""
    facts, _, told = line.partition(" Reason=")
    fields = dict(part.split("=", 1) for part in facts.split() if "=" in part)
    reason, _, by = told.partition(" [")
    words = fields.get("State", "").lower().replace("*", "+not_responding").split("+")
    return Node(
        name=fields.get("NodeName", ""),
        state=_node_state(words),
        reason=reason.strip()[:MAX_TEXT],
        address=fields.get("NodeAddr", ""),
        host=fields.get("NodeHostName", ""),
        owner=by.partition("@")[0].strip()[:MAX_TEXT],
        answers="not_responding" not in words,
    )


def maintenance_of(line: str) -> Maintenance | None:
    """Read a line of `scontrol -o show reservation`; None for a reservation that is no maintenance."""
    fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
    if "MAINT" not in fields.get("Flags", "").split(","):
        return None
    begins, ends = (datetime.fromisoformat(fields[name]).timestamp() for name in ("StartTime", "EndTime"))
    nodes = tuple(hostlist.expand(fields.get("Nodes", "").replace("(null)", "")))
    return Maintenance(name=fields["ReservationName"], nodes=nodes, begins_s=begins, ends_s=ends)


def _node_state(words: Sequence[str]) -> str:
    """Give wire.md's word: a drain is told before what still runs there, a node that is down before all."""
    if "down" in words or "fail" in words:
        return "down"
    at_work = any(word in words for word in ("allocated", "mixed", "completing"))
    if "drain" in words:
        return "draining" if at_work else "drained"
    return "allocated" if at_work else "idle" if "idle" in words else "unknown"


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [str(item) for item in value] if isinstance(value, list) else []


def _nodes(value: object) -> tuple[str, ...]:
    return tuple(hostlist.expand(value)) if isinstance(value, str) else ()


def _text(value: object) -> str:
    return value.strip()[:MAX_TEXT] if isinstance(value, str) else ""


def _number(value: object) -> int:
    value = value.get("number") if isinstance(value, Mapping) else value
    return int(value) if isinstance(value, int | float) else 0


def _exit_code(value: object) -> int | None:
    """Give a shell's exit code (128 + signal) of a wait status, in the old or the new shape."""
    if isinstance(value, Mapping):
        number = value.get("signal")
        signal = _number(number.get("id") if isinstance(number, Mapping) else number)
        return SIGNAL_BASE + signal if signal else _number(value.get("return_code"))
    if not isinstance(value, int):
        return None
    signal = value & 0x7F
    return SIGNAL_BASE + signal if signal else value >> 8
