"""Measure the machine in a thread that may hang without anyone missing a heartbeat."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from middlewatch_agent import nics
from middlewatch_agent.disks import Disk
from middlewatch_agent.gpu.base import GpuError, GpuIdentity, GpuSource, NoGpus
from middlewatch_agent.gpu.choose import choose

log = logging.getLogger(__name__)

MAX_GPUS = 64


class Health:
    """`run` is the thread; `reader` says how it is for the heartbeat."""

    def __init__(
        self,
        *,
        gpu: str,
        disks: Iterable[str],
        period_s: float,
        emit: Callable[[dict[str, Any]], None],
        ranks: Callable[[], list[dict[str, Any]]] = list,
    ) -> None:
        """Prepare; nothing is loaded or touched before `run`. `ranks` tells the live rank processes."""
        self.gpus: Sequence[GpuIdentity] = ()
        self.identified = threading.Event()
        self._setting = gpu
        self._source: GpuSource = NoGpus()
        self._disks = [Disk(path) for path in disks]
        self._period_s = period_s
        self._emit = emit
        self._ranks = ranks
        self._ended = threading.Event()
        self._gpu_fault: str | None = None
        self._first = True
        self._read_at = time.monotonic()

    def run(self) -> None:
        """Identify the GPUs, then measure every period until `stop`."""
        self._identify()
        self.identified.set()
        while True:
            began = time.monotonic()
            try:
                self._emit({"kind": "node.health", "data": self.measure()})
            except Exception:
                log.exception("Measuring failed")
            self._read_at = time.monotonic()
            if self._ended.wait(max(0.0, began + self._period_s - time.monotonic())):
                return

    def stop(self) -> None:
        """Let `run` return after the measurement under way."""
        self._ended.set()

    def reader(self) -> dict[str, Any]:
        """Give the heartbeat's entry: not `ok` when the GPU library fails or a measurement hangs."""
        age_s = time.monotonic() - self._read_at
        return {"ok": self._gpu_fault is None and age_s < 3 * self._period_s, "last_read_age_s": round(age_s, 1)}

    def measure(self) -> dict[str, Any]:
        """Give the data of `node.health`."""
        load = host()
        if self._first:
            del load["cpu_pct"]  # it covers the time since the last call, and there was none
        self._first = False
        return {
            "gpus": self._read_gpus(),
            "host": load,
            "disks": [disk.read() for disk in self._disks],
            "nics": nics.read(),
            "ranks": self._ranks(),
        }

    def _identify(self) -> None:
        try:
            self._source = choose(self._setting)
            self.gpus = self._source.identify()[:MAX_GPUS]
        except GpuError as error:
            self._fail(str(error))

    def _read_gpus(self) -> list[dict[str, Any]]:
        if isinstance(self._source, NoGpus):
            return []
        try:
            readings = list(self._source.read()[:MAX_GPUS])
        except GpuError as error:
            self._fail(str(error))
            return []
        self._gpu_fault = None
        return readings

    def _fail(self, why: str) -> None:
        if why != self._gpu_fault:
            log.warning("GPUs: %s", why)
        self._gpu_fault = why


def host() -> dict[str, Any]:
    """Give processor, memory and load; `cpu_pct` covers the time since the last call."""
    import psutil  # noqa: PLC0415 - costs a tenth of the start

    memory = psutil.virtual_memory()
    return {
        "cpu_pct": psutil.cpu_percent(None),
        "memory_available_bytes": memory.available,
        "memory_total_bytes": memory.total,
        "load1": round(os.getloadavg()[0], 2),
    }
