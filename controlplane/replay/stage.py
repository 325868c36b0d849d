"""Put the world of a trace's header into the database, by the same calls that people and agents make."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.errors import MiddlewatchError
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Node, NodeState
from controlplane.quarantine import actions as quarantine
from controlplane.replay.clock import BASE
from controlplane.replay.errors import TraceError
from controlplane.replay.expand import Arrival, Feed
from controlplane.replay.trace import EventLine, Header, NodeSpec, RunSpec
from controlplane.runs import actions as runs
from controlplane.runs.models import Mode, Run

MODES = {
    "act": Mode.AUTOPILOT, "autopilot": Mode.AUTOPILOT, "propose": Mode.ASK, "ask": Mode.ASK,
    "observe": Mode.WATCH, "watch": Mode.WATCH, "off": Mode.WATCH,
}  # fmt: skip
HEADER = 1
ENROLLED_AT_ONCE = 1_000
MADE_BY = "replay"


@dataclass
class Stage:
    """The runs of a trace, and who trains or launches in them."""

    header: Header
    runs: list[Run] = field(default_factory=list)
    launchers: dict[str, str] = field(default_factory=dict)
    _to_join: dict[str, str] = field(default_factory=dict)

    def build(self, feed: Feed, overrides: Mapping[str, Any]) -> None:
        """Enrol every node, create every run, and have the nodes introduce themselves that the trace leaves silent.

        Raises:
            TraceError: a policy or a name does not fit.
        """
        _enrol([node.name for node in self.header.nodes])
        try:
            self.runs = [self._create(run, overrides) for run in self.header.runs]
        except MiddlewatchError as error:
            raise TraceError(HEADER, str(error)) from None
        first = feed.take(0.0)
        introduced = {one.node for one in first if one.event is not None and one.event.kind == "node.hello"}
        there = {name for run in self.header.runs for name in [*run.nodes, *run.spares, self.launchers[run.name]]}
        for node in self.header.nodes:
            if node.name in there and node.name not in introduced:
                feed.push(_hello(node, launches=node.name in self.launchers.values()))
        for arrival in first:
            feed.push(arrival)
        self._to_join = {name: run.name for run in self.header.runs for name in run.nodes}

    def join_members(self) -> None:
        """Move members that have said hello from spare to training, once each."""
        if not self._to_join:
            return
        spare = Node.objects.filter(name__in=self._to_join, state=NodeState.SPARE).values_list("name", flat=True)
        by_run: dict[str, list[str]] = {}
        for name in sorted(spare):
            by_run.setdefault(self._to_join.pop(name), []).append(name)
        for run, names in by_run.items():
            quarantine.join(names, f"trains in {run}", now=BASE, key=f"replay:{run}")

    def _create(self, spec: RunSpec, overrides: Mapping[str, Any]) -> Run:
        launcher = self.launchers[spec.name] = self._launcher(spec)
        mode, policy = _policy(spec, self.header.policy, overrides)
        return runs.create_run(
            spec.name, launcher=launcher, nodes_wanted=len(spec.nodes), gpus_per_node=spec.gpus_per_node,
            mode=mode, policy=policy, now=BASE, by=MADE_BY,
        )  # fmt: skip

    def _launcher(self, spec: RunSpec) -> str:
        """Find the head node: named, or called head, or without GPUs and part of no run, or the first member."""
        used = {name for run in self.header.runs for name in [*run.nodes, *run.spares]}
        idle = [node for node in self.header.nodes if node.name not in used]
        for wanted in (spec.launcher, "head"):
            if wanted and any(node.name == wanted for node in self.header.nodes):
                return wanted
        return next((node.name for node in idle if not node.gpus), spec.nodes[0])


def _enrol(names: list[str]) -> None:
    for first in range(0, len(names), ENROLLED_AT_ONCE):
        some = names[first : first + ENROLLED_AT_ONCE]
        token = fleet.create_enrolment_token(MADE_BY, BASE, uses=len(some), ttl=timedelta(hours=1))
        for name in some:
            try:
                fleet.enrol(token, name, BASE)
            except MiddlewatchError as error:
                raise TraceError(HEADER, str(error)) from None


def _policy(spec: RunSpec, declared: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Give the run's mode and settings: the header's, under what the command line sets."""
    known = {item.name for item in fields(RunPolicy)}
    policy: dict[str, Any] = {}
    if spec.step_s is not None:
        policy["declared_step_s"] = spec.step_s
    if spec.checkpoint_every_steps is not None and "checkpoint_every_steps" in known:
        policy["checkpoint_every_steps"] = spec.checkpoint_every_steps
    given = {**declared, **overrides}
    mode = str(given.pop("mode", "act"))
    if mode not in MODES:
        raise TraceError(HEADER, f"policy.mode must be one of {', '.join(sorted(MODES))}")
    modes = {**declared.get("modes", {}), **overrides.get("modes", {})}
    return MODES[mode], {**policy, **given, **({"modes": modes} if modes else {})}


def _hello(node: NodeSpec, *, launches: bool) -> Arrival:
    """Let a node of the header introduce itself as an agent would."""
    machine = hashlib.sha256(node.name.encode()).hexdigest()[:16]
    gpus = [{"index": index, "uuid": uuid} for index, uuid in enumerate(node.gpus)]
    data = {
        "hostname": node.name, "boot_id": machine, "labels": node.labels,
        "hardware": {"machine_id": machine, "gpus": gpus},
        "capabilities": ["launcher"] if launches else ["stacks"],
    }  # fmt: skip
    event = EventLine(at_ms=0, kind="node.hello", data=msgspec.Raw(msgspec.json.encode(data)))
    return Arrival(0.0, HEADER, node.name, event=event)
