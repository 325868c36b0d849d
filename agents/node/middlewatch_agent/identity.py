"""Who this machine is, from facts that a reinstalled agent or a copied name cannot change."""

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from middlewatch_agent import __version__
from middlewatch_agent.files import read_text
from middlewatch_agent.gpu.base import GpuIdentity
from middlewatch_agent.nics import NIC_FOLDER, names

DMI = Path("/sys/class/dmi/id")
PLACEHOLDERS = frozenset({"", "none", "default string", "to be filled by o.e.m.", "not specified", "0"})


def boot_id() -> str:
    """Give the kernel's name of this boot, or "" where there is none."""
    return read_text("/proc/sys/kernel/random/boot_id") or ""


def hello(
    *, labels: Mapping[str, str], capabilities: Iterable[str], gpus: Iterable[GpuIdentity], dmi: Path = DMI
) -> dict[str, Any]:
    """Give the data of `node.hello`."""
    hardware = {
        "machine_id": read_text("/etc/machine-id") or read_text("/var/lib/dbus/machine-id"),
        "board_serial": _serial(dmi / "board_serial") or _serial(dmi / "product_serial"),
        "provider_id": _serial(dmi / "product_uuid"),
        "gpus": [gpu.told() for gpu in gpus],
        "nics": [_nic(name) for name in names()],
    }
    return {
        "hostname": platform.node(),
        "boot_id": boot_id(),
        "hardware": {key: value for key, value in hardware.items() if value is not None},
        "labels": dict(labels),
        "capabilities": sorted(capabilities),
        "agent_version": __version__,
    }


def _serial(path: Path) -> str | None:
    value = read_text(path, 256)
    return value if value and value.lower() not in PLACEHOLDERS else None


def _nic(name: str) -> dict[str, Any]:
    folder = NIC_FOLDER / name
    speed = read_text(folder / "speed", 16) or ""
    facts = {
        "name": name,
        "driver": _driver(folder),
        "mac": read_text(folder / "address", 64),
        "speed_mbps": int(speed) if speed.isdigit() else None,
    }
    return {key: value for key, value in facts.items() if value}


def _driver(folder: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(folder / "device/driver"))  # noqa: PTH115, PTH119 - the link's own name
    except OSError:
        return None
