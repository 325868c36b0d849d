"""What a fault of a machine's part means, with all that is known of that part (methods 11.1, 11.16, 11.17).

A contained error explains a crash and condemns nobody; the same on the same GPU twice
in a day is hardware; on several GPUs it is the program. What happened before the
machine's boot, or before the attempt began, is history: kept, never acted on.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.domain.detection.hardware_state import Fault, HardwareState
from controlplane.domain.signatures.table import COUNT, DRAIN_AT_SAVE, NONE, QUARANTINE_NOW, Signature, by_id

DAY_S = 86_400.0
HARDWARE = 6.0
MILD = 1.0
CONTAINED = frozenset({"xid-92", "xid-94"})
CONTAINED_WITHIN_S = 600.0
"""A counter of uncorrectable errors that rises beside a contained one tells of the same."""
CLOCK_SLACK_S = 5.0
FLEET = -1
"""Stands for an attempt in `Fault.kept` where the fleet's reducer judged."""
GIVE_UP_BOOTS = 3
GIVE_UP_TIMES = 5
"""As often in a day, or after two reboots, a part is the vendor's business."""

Clock = Callable[[str, int], tuple[float, float] | None]
"""From a node and its stamp in milliseconds to our clock in seconds and the bound of that; None while unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a fault weighs now, what it asks for, and what repetition adds in words."""

    weight: float
    action: str
    words: str = ""

    @property
    def acts(self) -> bool:
        """Say whether it condemns, at once or at the next save."""
        return self.action in (QUARANTINE_NOW, DRAIN_AT_SAVE)


def judge(record: HardwareState, fault: Fault) -> Verdict:
    """Say what `fault` means beside everything else on record."""
    signature = by_id()[fault.signature]
    plain = Verdict(weight=signature.weight, action=signature.action)
    if "word" in signature.repeat and fault.mild:
        return Verdict(weight=min(MILD, signature.weight), action=COUNT, words=", not fatal by its own word")
    if signature.counter == "ecc.volatile_uncorrected" and _contained(record, fault):
        return Verdict(weight=by_id()["xid-94"].weight, action=COUNT, words=", contained to the program that met it")
    if "gpus2" in signature.repeat and len(elsewhere(record, fault)) > 1:
        words = f" as {len(elsewhere(record, fault))} GPUs did in a day, so the program is suspected"
        return Verdict(weight=0.0, action=NONE, words=words)
    if "gpu2" in signature.repeat and (times := _same_part(signature, fault)) > 1:
        return Verdict(weight=HARDWARE, action=DRAIN_AT_SAVE, words=f" {times} times in a day on the same GPU")
    return plain


def elsewhere(record: HardwareState, fault: Fault) -> set[tuple[str, str]]:
    """Give the parts that showed the same within a day, that of `fault` among them."""
    return {
        (other.node, other.gpu or other.slot)
        for other in record.faults.values()
        if other.signature == fault.signature and abs(other.last_at - fault.last_at) <= DAY_S
    }


def gives_up(fault: Fault) -> bool:
    """Say whether it came so often, or after so many reboots, that repair is the vendor's business."""
    return len(fault.boots) >= GIVE_UP_BOOTS or _times(fault) >= GIVE_UP_TIMES


def _same_part(signature: Signature, fault: Fault) -> int:
    """Count the bursts of a day on one GPU, 0 where the GPU or its unit is not the same for sure."""
    if not (fault.gpu or fault.slot) or ("unit" in signature.repeat and len(fault.units) > 1):
        return 0
    return _times(fault)


def _times(fault: Fault) -> int:
    return sum(1 for span in fault.bursts if fault.last_ms - span[1] <= DAY_S * 1000)


def _contained(record: HardwareState, fault: Fault) -> bool:
    return any(
        other.signature in CONTAINED
        and other.node == fault.node
        and other.gpu in ("", fault.gpu)
        and abs(other.last_at - fault.last_at) <= CONTAINED_WITHIN_S
        for other in record.faults.values()
    )


def struck_at(fault: Fault) -> float:
    """Give when the newest burst began, by our clock in seconds."""
    begun = fault.bursts[-1][0] if fault.bursts else fault.last_ms
    return fault.last_at - max(0, fault.last_ms - begun) / 1000


def current(record: HardwareState, fault: Fault, *, attempt: int | None, since: float, clock: Clock) -> bool:
    """Say whether the fault belongs to what has gone on since `since`, by our clock in seconds."""
    if fault.kept is not None and fault.kept == attempt:
        return not fault.old
    machine = record.machines.get(fault.node)
    if machine is not None and machine.boot_id and fault.boots and machine.boot_id not in fault.boots:
        return False
    happened = clock(fault.node, fault.last_ms)
    if happened is not None and happened[0] + happened[1] + CLOCK_SLACK_S < since:
        return False
    return not fault.old and fault.last_at >= since


def forgive(record: HardwareState, node: str, at: float) -> None:
    """Make history of what `node` showed before `at`: it was repaired or released (methods 11.17)."""
    for fault in record.faults.values():
        fault.old = fault.old or (fault.node == node and fault.last_at <= at)
