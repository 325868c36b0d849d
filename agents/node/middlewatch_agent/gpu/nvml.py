"""Read NVIDIA GPUs through NVML (`pip install middlewatch-agent[nvml]`).

Each value is asked for alone: boards and drivers differ in what they support,
and a missing counter must not hide the temperature. A GPU that has fallen off
the bus answers with errors, which is told as such.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from middlewatch_agent.gpu.base import GpuError, GpuIdentity

Value = TypeVar("Value")

# Bits of nvmlClocksEventReasons (older: ThrottleReasons), nvml.h.
THROTTLE = {
    0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost", 0x20: "sw_thermal",
    0x40: "hw_thermal", 0x80: "hw_power_brake",
}  # fmt: skip
CORRECTED, UNCORRECTED, VOLATILE, AGGREGATE = 0, 1, 0, 1
TEMPERATURE_GPU, CLOCK_SM = 0, 1
MAX_LINKS = 18
LINK_COUNTERS = (0, 1, 2, 3)  # replay, recovery, CRC of flits, CRC of data
GONE = frozenset({15, 18, 999})  # GPU is lost, in use by a reset, unknown


class NvmlGpus:
    """A GpuSource over pynvml."""

    def __init__(self) -> None:
        """Load the library; raises GpuError where it is absent or the driver does not answer."""
        try:
            self._nvml: Any = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
        except ImportError as error:
            raise GpuError("the module pynvml is not installed") from error
        except Exception as error:
            raise GpuError(f"NVML does not start: {error}") from error
        self._uuids: dict[int, str] = {}

    def identify(self) -> Sequence[GpuIdentity]:
        """Give the GPUs that answer."""
        nvml, driver = self._nvml, self._try(self._nvml.nvmlSystemGetDriverVersion)
        found = []
        for index in range(self._call(nvml.nvmlDeviceGetCount)):
            handle = self._try(nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is None:
                continue
            self._uuids[index] = _text(self._try(nvml.nvmlDeviceGetUUID, handle)) or f"index-{index}"
            memory, pci = self._try(nvml.nvmlDeviceGetMemoryInfo, handle), self._try(nvml.nvmlDeviceGetPciInfo, handle)
            found.append(
                GpuIdentity(
                    index=index, uuid=self._uuids[index], model=_text(self._try(nvml.nvmlDeviceGetName, handle)) or "",
                    memory_bytes=getattr(memory, "total", None), pci=_text(getattr(pci, "busId", None)),
                    driver=_text(driver),
                )
            )  # fmt: skip
        return found

    def read(self) -> Sequence[dict[str, Any]]:
        """Give a reading of each GPU; `error` is set on one that is lost."""
        return [self._read_one(index) for index in range(self._call(self._nvml.nvmlDeviceGetCount))]

    def _read_one(self, index: int) -> dict[str, Any]:
        reading: dict[str, Any] = {"index": index, "uuid": self._uuids.get(index)}
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            self._nvml.nvmlDeviceGetTemperature(handle, TEMPERATURE_GPU)
        except self._nvml.NVMLError as error:
            if error.value in GONE:
                return _known(reading | {"error": str(error)})
            handle = self._try(self._nvml.nvmlDeviceGetHandleByIndex, index)
        return _known(reading | (self._gauges(handle) | self._counters(handle) if handle is not None else {}))

    def _gauges(self, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        power = self._try(nvml.nvmlDeviceGetPowerUsage, handle)
        return {
            "util_pct": getattr(self._try(nvml.nvmlDeviceGetUtilizationRates, handle), "gpu", None),
            "temp_c": self._try(nvml.nvmlDeviceGetTemperature, handle, TEMPERATURE_GPU),
            "power_w": None if power is None else power / 1000.0,
            "memory_used_bytes": getattr(self._try(nvml.nvmlDeviceGetMemoryInfo, handle), "used", None),
            "sm_clock_mhz": self._try(nvml.nvmlDeviceGetClockInfo, handle, CLOCK_SM),
            "throttle": self._throttle(handle),
        }

    def _throttle(self, handle: Any) -> list[str] | None:
        bits = self._try(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        return None if bits is None else [name for bit, name in THROTTLE.items() if bits & bit]

    def _counters(self, handle: Any) -> dict[str, Any]:
        ecc = {
            "volatile_corrected": self._ecc(handle, CORRECTED, VOLATILE),
            "volatile_uncorrected": self._ecc(handle, UNCORRECTED, VOLATILE),
            "aggregate_corrected": self._ecc(handle, CORRECTED, AGGREGATE),
            "aggregate_uncorrected": self._ecc(handle, UNCORRECTED, AGGREGATE),
        }
        rows = self._try(self._nvml.nvmlDeviceGetRemappedRows, handle)
        remap = dict(zip(("correctable", "uncorrectable", "pending", "failed"), rows, strict=True)) if rows else None
        if remap:
            remap |= {"pending": bool(remap["pending"]), "failed": bool(remap["failed"])}
        return {"ecc": _known(ecc) or None, "remap": remap, "nvlink_errors": self._links(handle)}

    def _ecc(self, handle: Any, error_type: int, counter: int) -> int | None:
        return self._try(self._nvml.nvmlDeviceGetTotalEccErrors, handle, error_type, counter)

    def _links(self, handle: Any) -> int | None:
        values = [
            self._try(self._nvml.nvmlDeviceGetNvLinkErrorCounter, handle, link, counter)
            for link in range(MAX_LINKS)
            if self._try(self._nvml.nvmlDeviceGetNvLinkState, handle, link)
            for counter in LINK_COUNTERS
        ]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def _call(self, function: Callable[..., Value], *args: Any) -> Value:
        try:
            return function(*args)
        except self._nvml.NVMLError as error:
            raise GpuError(str(error)) from error

    def _try(self, function: Callable[..., Value], *args: Any) -> Value | None:
        try:
            return function(*args)
        except self._nvml.NVMLError:
            return None


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _text(value: str | bytes | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
