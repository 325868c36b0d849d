"""State and error counters of network interfaces, InfiniBand ports included, from sysfs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from middlewatch_agent.files import read_text

NIC_FOLDER = Path("/sys/class/net")
INFINIBAND = Path("/sys/class/infiniband")
MAX_NICS = 64
ERROR_COUNTERS = ("rx_errors", "tx_errors", "rx_crc_errors", "tx_carrier_errors")
PORT_COUNTERS = ("link_downed", "symbol_error", "port_rcv_errors", "link_error_recovery")


def names() -> list[str]:
    """Give the interfaces that have hardware behind them or at least are not the loopback."""
    try:
        found = sorted(entry.name for entry in NIC_FOLDER.iterdir() if entry.name != "lo")
    except OSError:
        return []
    physical = [name for name in found if (NIC_FOLDER / name / "device").exists()]
    return (physical or found)[:MAX_NICS]


def read() -> list[dict[str, Any]]:
    """Give `{name, state, errors}` of each interface and port."""
    return [_nic(name) for name in names()] + list(_ports())


def _nic(name: str) -> dict[str, Any]:
    folder = NIC_FOLDER / name
    return {
        "name": name,
        "state": read_text(folder / "operstate", 32) or "unknown",
        "errors": _sum(folder / "statistics", ERROR_COUNTERS),
    }


def _ports() -> Iterator[dict[str, Any]]:
    for port in sorted(INFINIBAND.glob("*/ports/*"))[:MAX_NICS]:
        state = (read_text(port / "state", 32) or "unknown").rpartition(": ")[2].lower()
        name = f"{port.parent.parent.name}:{port.name}"
        yield {"name": name, "state": state, "errors": _sum(port / "counters", PORT_COUNTERS)}


def _sum(folder: Path, counters: tuple[str, ...]) -> int:
    values = (read_text(folder / counter, 32) for counter in counters)
    return sum(int(value) for value in values if value and value.isdigit())
