"""Say what happened to a machine's part as a person would, with its exact name."""

from controlplane.domain.detection.hardware_rules import Verdict
from controlplane.domain.detection.hardware_state import Fault
from controlplane.domain.signatures.table import Signature

_CODES = {"xid": "Xid", "sxid": "SXid"}


def text(signature: Signature, fault: Fault, verdict: Verdict) -> str:
    """Give one sentence without a period: "GPU 3 of n11 (GPU-8bd8…) fell off the PCIe bus (Xid 79)"."""
    kind, _, number = signature.code.partition(" ")
    code = f" ({_CODES[kind]} {number})" if number else ""
    told = f" ({fault.said})" if signature.counter and fault.said else ""
    return f"{subject(signature, fault)} {signature.sentence}{code}{told}{verdict.words}"


def subject(signature: Signature, fault: Fault) -> str:
    """Name the part that a fault is about."""
    if signature.entity == "gpu":
        return _gpu(fault)
    if signature.entity == "rank" and fault.rank is not None:
        return f"rank {fault.rank} on {fault.node}"
    if signature.entity == "rank":
        return f"process {fault.process} on {fault.node}" if fault.process else f"a process on {fault.node}"
    if signature.entity == "port":
        return f"port {fault.slot} of {fault.node}" if fault.slot else f"a network port of {fault.node}"
    return _OTHERS.get(signature.entity, f"node {fault.node}")


_OTHERS = {
    "storage": "the storage",
    "workload": "the program",
    "network": "the network",
    "run": "the run",
    "platform": "the scheduler",
}


def _gpu(fault: Fault) -> str:
    if not fault.gpu:
        return f"the GPU at {fault.slot} of {fault.node}" if fault.slot else f"a GPU of {fault.node}"
    return f"GPU {fault.gpu if fault.index is None else fault.index} of {fault.node}" + (
        f" ({fault.gpu})" if fault.index is not None else ""
    )


def entity(signature: Signature, fault: Fault) -> str:
    """Give the entity that a finding is about: the GPU where its name is known, else its node."""
    if signature.entity == "gpu" and fault.gpu:
        return f"gpu:{fault.gpu}"
    return accused(signature, fault) or f"node:{fault.node}"


def accused(signature: Signature, fault: Fault) -> str:
    """Give the entity that the evidence weighs on, "" when a rank is meant that nobody can name."""
    if signature.entity == "rank":
        return "" if fault.rank is None else f"rank:{fault.rank}"
    if signature.entity in ("gpu", "node", "port"):
        return f"node:{fault.node}"
    return f"network:{fault.slot or 'fabric'}" if signature.entity == "network" else signature.entity
