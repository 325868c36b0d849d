"""Drain nodes and give them back, never touching what somebody else drained.

The reason of a drain is its only owner mark in Slurm, so ours begin with our name.
"""

import socket
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from middlewatch_agent.launcher.slurm.tools import Tools
from middlewatch_agent.launcher.slurm.view import Node

MARK = "middlewatch: "
OUT = frozenset({"drained", "draining", "down"})
LOST = "Not responding"
"""What Slurm itself writes when a node's daemon is silent for too long."""
UNFINISHED = "Kill task failed"
"""What Slurm writes when a step did not end in time. The control plane asks for such a node only with the proof of
the node's agent that no rank process is left there (L-09)."""
MAX_REASON = 200
LOOK_S = 0.1
ANSWER_S = 3.0
"""How long a node that was given back may take to answer; Slurm asks it at once."""


def is_ours(node: Node) -> bool:
    """Whether it was us who took the node out of use."""
    return node.reason.startswith(MARK)


def fence(tools: Tools, name: str, why: str) -> None:
    """Take a node out at once, also one that does not answer; a drain stays when a node comes back by itself."""
    node = next((node for node in tools.nodes() if node.name == name), None)
    reason = node.reason if node and _is_a_persons(node) else _reason(why)
    tools.update_node(name, "down", reason)
    tools.update_node(name, "drain", reason)


def fence_lost(tools: Tools, known: Mapping[str, Node], names: Collection[str], why: str) -> list[str]:
    """Fence those of the `known` that Slurm lost: it calls their job ended without having seen its processes end."""
    lost = [node for node in known.values() if node.name in names and (node.state == "down" or not node.answers)]
    for node in lost:
        fence(tools, node.name, why)
    return [node.name for node in lost]


def give_back(tools: Tools, names: Collection[str], why: str) -> list[str]:
    """Give fenced nodes back that are known to be empty; fence those again that do not answer. Gives the latter."""
    ours = [node.name for node in tools.nodes() if node.name in names and is_ours(node)]
    for name in ours:
        tools.update_node(name, "resume")
    deadline = time.monotonic() + ANSWER_S
    while (silent := _silent(tools, ours)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    for name in silent:
        fence(tools, name, why)
    return [name for name in names if name in silent or name not in ours]


def of_this_host(tools: Tools, names: Collection[str]) -> list[str]:
    """Those that this very machine plays, so that their processes are seen from here."""
    here = socket.gethostname().partition(".")[0]
    return [node.name for node in tools.nodes() if node.name in names and node.host.partition(".")[0] == here]


def _silent(tools: Tools, names: Collection[str]) -> list[str]:
    return [node.name for node in tools.nodes() if node.name in names and not node.answers]


def unusable(node: Node) -> str:
    """Why a job for this node would wait for ever, or nothing."""
    if node.state in OUT:
        return f"is {_by_another(node)}" if not is_ours(node) else f"is {node.state}, {node.reason}"
    return "" if node.answers else "does not answer Slurm"


def drain(tools: Tools, names: Sequence[str], why: str) -> dict[str, Any]:
    """Let nothing more be placed on nodes. Raises UnknownError or ToolError."""
    known = {node.name: node for node in tools.nodes()}
    left = {name: refusal for name in names if (refusal := _not_drained(known.get(name)))}
    done = [name for name in names if name not in left]
    for name in done:
        if known[name].state not in OUT:
            tools.update_node(name, "drain", _reason(why))
    return {"drained": done, "left": left}


def resume(tools: Tools, names: Sequence[str]) -> dict[str, Any]:
    """Give back what we took, and what Slurm took over a step that would not end. Raises UnknownError or ToolError."""
    known = {node.name: node for node in tools.nodes()}
    left = {name: refusal for name in names if (refusal := _not_resumed(known.get(name)))}
    done = [name for name in names if name not in left]
    for name in done:
        if known[name].state in OUT:
            tools.update_node(name, "resume")
    return {"resumed": done, "left": left}


def _is_a_persons(node: Node) -> bool:
    return node.state in OUT and bool(node.reason) and not is_ours(node) and not node.reason.startswith(LOST)


def _not_drained(node: Node | None) -> str:
    if node is None:
        return "Slurm does not know it"
    return _by_another(node) if node.state in OUT and not is_ours(node) else ""


def _not_resumed(node: Node | None) -> str:
    if node is None:
        return "Slurm does not know it"
    if node.state in OUT and not is_ours(node) and not (node.state == "drained" and node.reason == UNFINISHED):
        return _by_another(node)
    return "it does not answer" if node.state in OUT and not node.answers else ""


def _by_another(node: Node) -> str:
    return f"{node.state} by {node.owner or 'somebody else'}: {node.reason or 'without a reason'}"


def _reason(why: str) -> str:
    return f"{MARK}{why.removeprefix(MARK)}"[:MAX_REASON]
