"""Write what logs and counters say about machines into one record.

Every rule gives the same record when an event comes twice or out of order: bursts are
merged as spans of the sender's clock, and the newest by that clock names the place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.domain.detection import counters, reading, unrecognised
from controlplane.domain.detection.hardware_state import (
    MAX_BURSTS,
    MAX_FAULTS,
    MAX_GPUS,
    MAX_MACHINES,
    MAX_PIDS,
    MAX_UNITS,
    Fault,
    HardwareState,
    Machine,
    Slot,
    Tenant,
)
from controlplane.domain.signals import Signal
from controlplane.domain.signatures.match import Match, channel_of, matches, pci
from controlplane.domain.signatures.table import RANK, SCHEDULER, Signature, by_id

KINDS = frozenset(
    {"node.hello", "node.health", "node.log", "rank.started", "rank.log", "rank.exited", "scheduler.node"}
)
MAX_REBOOTS = 8
MAX_ASKED = 20


def take(record: HardwareState, signal: Signal) -> None:
    """Write `signal` into `record`; what says nothing about a machine changes nothing."""
    machine = machine_of(record, signal.node)
    if machine is None:
        return
    rule = _RULES.get(signal.kind)
    if rule is not None:
        rule(record, machine, signal)


def machine_of(record: HardwareState, name: str) -> Machine | None:
    """Give the record of a machine, None when there are too many."""
    if name not in record.machines and len(record.machines) < MAX_MACHINES:
        record.machines[name] = Machine()
    return record.machines.get(name)


def strangers(record: HardwareState, nodes: Iterable[str]) -> list[str]:
    """Give those of `nodes` whose GPUs are not known here, as long as asking for them has not been in vain."""
    known = {name: machine_of(record, name) for name in nodes}
    return sorted(name for name, one in known.items() if one and not one.slots and one.asked < MAX_ASKED)


def introduce(record: HardwareState, node: str, hardware: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
    """Tell what a machine said in a hello that was not heard here; what was heard stands."""
    machine = machine_of(record, node)
    if machine is None:
        return
    machine.asked += 1
    machine.switch = machine.switch or reading.text(labels, "switch")
    if not machine.slots:
        equip(machine, hardware.get("gpus"))


def note(record: HardwareState, signature: Signature, signal: Signal, **place: Any) -> None:
    """Count one sighting of `signature`; `place` are fields of `Fault`."""
    node = place.pop("node", signal.node)
    rank = place.get("rank")
    where = place.get("gpu") or place.get("slot") or (place.get("process") or "" if rank is None else str(rank))
    key = f"{signature.id}|{node}|{where}"
    fault = record.faults.get(key)
    if fault is None:
        _make_room(record)
        fault = record.faults[key] = Fault(signature=signature.id, node=node, first_at=signal.received)
    _sight(fault, signature, signal, place)


def _sight(fault: Fault, signature: Signature, signal: Signal, place: Mapping[str, Any]) -> None:
    fault.first_at = min(fault.first_at, signal.received)
    fault.mild = fault.mild and bool(place.get("mild"))
    _merge(fault.bursts, signal.at_ms, round(signature.gap_s * 1000))
    for name, many in (("unit", fault.units), ("boot", fault.boots)):
        word = str(place.get(name) or "")
        if word and word not in many and len(many) < MAX_UNITS:
            many.append(word)
    if signal.at_ms == fault.last_ms:
        fault.last_at = min(fault.last_at, signal.received)
    if signal.at_ms > fault.last_ms:
        fault.last_ms, fault.last_at = signal.at_ms, signal.received
        for name in ("gpu", "index", "slot", "rank", "process", "said"):
            setattr(fault, name, place.get(name, getattr(fault, name)))


def _merge(bursts: list[list[int]], at_ms: int, gap_ms: int) -> None:
    """Put a moment into the spans; spans that come within `gap_ms` of each other become one."""
    near = [span for span in bursts if span[0] - gap_ms <= at_ms <= span[1] + gap_ms]
    for span in near:
        bursts.remove(span)
    bursts.append([min([at_ms, *(span[0] for span in near)]), max([at_ms, *(span[1] for span in near)])])
    bursts.sort()
    del bursts[:-MAX_BURSTS]


def _make_room(record: HardwareState) -> None:
    """Forget the lightest and oldest fault when there are too many."""
    if len(record.faults) < MAX_FAULTS:
        return
    known = by_id()
    del record.faults[
        min(record.faults, key=lambda key: (_weight(known, record.faults[key]), record.faults[key].last_at))
    ]


def _weight(known: Mapping[str, Signature], fault: Fault) -> float:
    return known[fault.signature].weight if fault.signature in known else 0.0


def _hello(_record: HardwareState, machine: Machine, signal: Signal) -> None:
    boot(machine, reading.text(signal.data, "boot_id"), signal)
    machine.switch = reading.text(reading.mapping(signal.data, "labels"), "switch") or machine.switch
    if signal.at_ms >= machine.boot_ms:
        equip(machine, reading.mapping(signal.data, "hardware").get("gpus"))


def equip(machine: Machine, gpus: Any) -> None:
    """Note which GPU sits in which slot; anything but a list of GPUs changes nothing."""
    if not isinstance(gpus, (list, tuple)):
        return
    found = [gpu for gpu in gpus[:MAX_GPUS] if isinstance(gpu, Mapping) and reading.text(gpu, "uuid")]
    if found:
        machine.slots = {
            pci(reading.text(gpu, "pci") or str(number)): Slot(
                index=reading.integer(gpu, "index"), uuid=reading.text(gpu, "uuid")
            )
            for number, gpu in enumerate(found)
        }


def boot(machine: Machine, boot_id: str, signal: Signal) -> None:
    """Note which boot a machine is in; another one than before is a reboot."""
    if not boot_id or signal.at_ms < machine.boot_ms:
        return
    if machine.boot_id and machine.boot_id != boot_id:
        machine.reboots = [*machine.reboots, signal.received][-MAX_REBOOTS:]
        machine.gauges = {}
    if machine.boot_id != boot_id:
        machine.boot_at = signal.received
    machine.boot_id, machine.boot_ms = boot_id, signal.at_ms


def _started(_record: HardwareState, machine: Machine, signal: Signal) -> None:
    pid = reading.integer(signal.data, "pid")
    if pid is None or signal.rank is None:
        return
    if pid not in machine.pids and len(machine.pids) >= MAX_PIDS:
        del machine.pids[next(iter(machine.pids))]
    machine.pids[pid] = Tenant(rank=signal.rank, gpu=reading.text(signal.data, "gpu_uuid"), attempt=signal.attempt or 0)


def _log(record: HardwareState, machine: Machine, signal: Signal) -> None:
    source, text = reading.text(signal.data, "source"), signal.data.get("text")
    for match in matches(channel_of(signal.kind, source), text if isinstance(text, str) else ""):
        if match.signature is None:
            unrecognised.count(record.unknown, match, signal)
        else:
            gpu, slot = _gpu(machine, match)
            _line(record, match.signature, match, signal, gpu=gpu, slot=slot, tenant=_tenant(machine, match.pid))


def _tenant(machine: Machine, pid: int | None) -> Tenant | None:
    """Give the rank that a process is, by the newest attempt on the machine: numbers of processes come again."""
    tenant = machine.pids.get(pid) if pid is not None else None
    newest = max((other.attempt for other in machine.pids.values()), default=0)
    return tenant if tenant is not None and tenant.attempt == newest else None


def _gpu(machine: Machine, match: Match) -> tuple[Slot, str]:
    """Give the GPU that a line speaks of: by its slot, else by the process that the line names."""
    if match.signature is None or match.signature.entity not in ("gpu", "port"):
        return Slot(), ""
    known = machine.slots.get(match.place)
    tenant = _tenant(machine, match.pid)
    if known is None and match.signature.entity == "gpu" and tenant is not None:
        known = Slot(uuid=tenant.gpu)
    return known or Slot(), match.place


def _line(
    record: HardwareState,
    signature: Signature,
    match: Match,
    signal: Signal,
    *,
    gpu: Slot,
    slot: str,
    tenant: Tenant | None,
) -> None:
    note(
        record,
        signature,
        signal,
        gpu=gpu.uuid,
        index=gpu.index,
        slot=slot,
        rank=None if tenant is None else tenant.rank,
        process=match.process,
        unit=match.unit,
        boot=reading.text(signal.data, "boot_id"),
        mild=match.mild,
        said=match.said,
    )


def _rank_log(record: HardwareState, _machine: Machine, signal: Signal) -> None:
    text = signal.data.get("text")
    for match in matches(RANK, text if isinstance(text, str) else ""):
        if match.signature is not None and signal.rank is not None:
            note(record, match.signature, signal, rank=signal.rank, said=match.said, mild=match.mild)
        elif match.signature is None:
            unrecognised.count(record.unknown, match, signal)


def _exited(record: HardwareState, _machine: Machine, signal: Signal) -> None:
    """Take from the end of a rank what it says of the storage; the rest is the detector of deaths'."""
    error = reading.mapping(signal.data, "error")
    words = f"{reading.text(error, 'type')}: {reading.text(error, 'message')}" if error else ""
    for match in matches(RANK, words):
        if match.signature is not None and match.signature.klass == "storage_stall" and signal.rank is not None:
            note(record, match.signature, signal, rank=signal.rank, said=match.said)


def _scheduler(record: HardwareState, _machine: Machine, signal: Signal) -> None:
    node = reading.text(signal.data, "node")
    for match in matches(SCHEDULER, reading.text(signal.data, "reason")):
        if match.signature is not None and node:
            note(record, match.signature, signal, node=node, said=match.said)


def _health(record: HardwareState, machine: Machine, signal: Signal) -> None:
    for risen in counters.take(machine, signal):
        signature = by_id()[risen.signature]
        note(record, signature, signal, gpu=risen.uuid, index=risen.index, said=risen.said, boot=machine.boot_id)
    for port, up in counters.ports(machine, signal):
        note(
            record, by_id()["net-up" if up else "net-down"], signal, slot=port, said=f"{port} {'up' if up else 'down'}"
        )


_RULES = {
    "node.hello": _hello,
    "node.health": _health,
    "node.log": _log,
    "rank.started": _started,
    "rank.log": _rank_log,
    "rank.exited": _exited,
    "scheduler.node": _scheduler,
}
