"""Read the counters of a machine's GPUs: what rose, what is spent, what is gone.

The first reading is where counting begins: what was there before belongs to another
day. A GPU counts as missing only when it was reported in this boot and then lacks twice
running beside others that are still reported: an empty list says that nobody could ask,
and a list that was always shorter that somebody asks for less.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from controlplane.domain.detection import reading
from controlplane.domain.detection.hardware_state import MAX_GPUS, MAX_NICS, Gauge, Machine, Nic
from controlplane.domain.signals import Signal

SRAM_LIMIT = 4
"""Uncorrectable errors of the cache memory in a GPU's life that the vendor allows (D-06)."""
LIFE_LIMIT = 4
"""The same where a driver gives one number for all memories, in which remapped rows count too."""
ABSENT_TIMES = 2
SRAM_NAMES = ("aggregate_uncorrected_sram", "aggregate_sram_uncorrected", "sram_uncorrected", "sram_uncorrectable")

Standing = tuple[tuple[str, str], ...]
"""Rows of the table that a reading speaks of, each with its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risen:
    """A counter that speaks: the row of the table, the GPU, and the number in words."""

    signature: str
    uuid: str
    index: int | None
    said: str


def take(machine: Machine, signal: Signal) -> list[Risen]:
    """Take one report of a machine's health; give what it says that is worth a row."""
    gpus = signal.data.get("gpus")
    if gpus and gpus == machine.alike:
        return _again(machine, signal.at_ms)
    listed = [gpu for gpu in gpus[:MAX_GPUS] if isinstance(gpu, Mapping)] if isinstance(gpus, (list, tuple)) else []
    told = {reading.text(gpu, "uuid"): gpu for gpu in listed if reading.text(gpu, "uuid")}
    found = [risen for uuid, gpu in told.items() for risen in _read(machine, uuid, gpu, signal.at_ms)]
    found += _missing(machine, told, signal.at_ms)
    machine.alike = gpus if gpus and not found and _whole(machine, gpus, told, signal.at_ms) else None
    return found


def _whole(machine: Machine, gpus: Sequence[Any], told: Mapping[str, Any], at_ms: int) -> bool:
    """Say whether a report is the newest of every GPU there is, with nothing in it that was left out."""
    newest = all(gauge.at_ms == at_ms and uuid in told for uuid, gauge in machine.gauges.items())
    return newest and len(gpus) == len(told) == len(machine.gauges)


def _again(machine: Machine, at_ms: int) -> list[Risen]:
    """Note that every GPU was read once more and nothing has changed."""
    for gauge in machine.gauges.values():
        gauge.at_ms = max(gauge.at_ms, at_ms)
    return []


def _gauge(machine: Machine, uuid: str) -> Gauge:
    if uuid not in machine.gauges and len(machine.gauges) >= MAX_GPUS:
        return Gauge()
    return machine.gauges.setdefault(uuid, Gauge())


def _read(machine: Machine, uuid: str, gpu: Mapping[str, Any], at_ms: int) -> Iterator[Risen]:
    gauge = _gauge(machine, uuid)
    if at_ms <= gauge.at_ms:
        return
    gauge.at_ms, gauge.absent = at_ms, 0
    volatile, standing = _memory(gpu)
    rose = _rose(gauge, "uncorrected", volatile), _rose(gauge, "nvlink", reading.integer(gpu, "nvlink_errors"))
    if not standing and rose == ("", ""):
        return
    for signature, said in (("gpu-ecc-volatile", rose[0]), ("gpu-nvlink-errors", rose[1]), *standing):
        if said:
            yield Risen(signature=signature, uuid=uuid, index=reading.integer(gpu, "index"), said=said)


def _memory(gpu: Mapping[str, Any]) -> tuple[int | None, Standing]:
    """Give the count of errors since the boot, and what a GPU's memory says whatever it said before.

    The same few numbers come from every GPU four times a minute, so what they mean is kept.
    """
    ecc, remap = reading.mapping(gpu, "ecc"), reading.mapping(gpu, "remap")
    try:
        return _meant(_items(ecc), _items(remap))
    except TypeError:  # a value that cannot be kept
        return _meaning(ecc, remap)


def _items(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """Tell True from 1, as those who read do."""
    return tuple((name, value.__class__, value) for name, value in data.items())


@lru_cache(maxsize=4096)
def _meant(ecc: tuple[Any, ...], remap: tuple[Any, ...]) -> tuple[int | None, Standing]:
    return _meaning({name: value for name, _, value in ecc}, {name: value for name, _, value in remap})


def _meaning(ecc: Mapping[str, Any], remap: Mapping[str, Any]) -> tuple[int | None, Standing]:
    said = (
        *_lifelong(ecc),
        ("gpu-remap-failed", "remap failed" if _true(remap, "failed") else ""),
        ("gpu-remap-pending", "remap pending" if _true(remap, "pending") else ""),
    )
    return reading.integer(ecc, "volatile_uncorrected"), tuple(pair for pair in said if pair[1])


def _rose(gauge: Gauge, name: str, value: int | None) -> str:
    """Say by how much a counter rose since it was last read; a first reading and a reset say nothing."""
    before: int | None = getattr(gauge, name)
    if value is not None:
        setattr(gauge, name, value)
    if value is None or before is None or value <= before:
        return ""
    return f"{value - before} more, {value} in all"


def _lifelong(ecc: Mapping[str, Any]) -> list[tuple[str, str]]:
    sram = next((count for name in SRAM_NAMES if (count := reading.integer(ecc, name)) is not None), None)
    whole = reading.integer(ecc, "aggregate_uncorrected")
    if sram is not None:
        return [("gpu-ecc-sram", f"{sram} of at most {SRAM_LIMIT}" if sram > SRAM_LIMIT else "")]
    return [("gpu-ecc-aggregate", f"{whole} of at most {LIFE_LIMIT}" if whole and whole > LIFE_LIMIT else "")]


def _true(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    return value is True or (isinstance(value, int) and value > 0)


def _missing(machine: Machine, told: Mapping[str, Any], at_ms: int) -> Iterator[Risen]:
    if not told:
        return
    index = {slot.uuid: slot.index for slot in machine.slots.values()}
    for uuid, gauge in machine.gauges.items():
        if uuid in told or at_ms <= max(gauge.at_ms, gauge.absent_ms):
            continue
        gauge.absent, gauge.absent_ms = gauge.absent + 1, at_ms
        if gauge.absent >= ABSENT_TIMES:
            said = f"{len(told)} of {len(machine.gauges)} seen"
            yield Risen(signature="gpu-missing", uuid=uuid, index=index.get(uuid), said=said)


DOWN = frozenset({"down", "lowerlayerdown", "disabled", "polling", "init"})
UP = frozenset({"up", "active"})


def ports(machine: Machine, signal: Signal) -> list[tuple[str, bool]]:
    """Give the network ports that changed, each with whether it is up now; one that was never up says nothing."""
    nics = signal.data.get("nics")
    listed = nics[:MAX_NICS] if isinstance(nics, (list, tuple)) else []
    return [change for nic in listed if isinstance(nic, Mapping) and (change := _port(machine, nic, signal.at_ms))]


def _port(machine: Machine, nic: Mapping[str, Any], at_ms: int) -> tuple[str, bool] | None:
    name, word = reading.text(nic, "name").lower(), reading.text(nic, "state").lower()
    if not name or word not in DOWN | UP or (name not in machine.nics and len(machine.nics) >= MAX_NICS):
        return None
    known = machine.nics.get(name)
    if known is not None and at_ms <= known.at_ms:
        return None
    machine.nics[name] = Nic(up=word in UP, at_ms=at_ms)
    return (name, word in UP) if known is not None and known.up != (word in UP) else None
