"""All log sources of this node: opened, driven, opened again when they break."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from middlewatch_agent.config import AgentConfig, LogSource
from middlewatch_agent.loop import Loop
from middlewatch_agent.readers import prefilter
from middlewatch_agent.readers.base import Line, Outlet, Reader
from middlewatch_agent.readers.journal import JournalReader
from middlewatch_agent.readers.kmsg import KmsgReader
from middlewatch_agent.readers.tail import TailReader

log = logging.getLogger(__name__)

NOTE = "cursor:"
REOPEN_S = 30.0
LOOK_S = 2.0

Emit = Callable[[dict[str, Any], Mapping[str, str | None]], None]
Open = Callable[[str | None], Reader]


class LogReaders:
    """Lives in the loop's thread."""

    def __init__(
        self, config: AgentConfig, loop: Loop, *, boot_id: str, emit: Emit, note: Callable[[str], str | None]
    ) -> None:
        """Prepare what the settings name; `emit(event, notes)` spools, `note(key)` gives a remembered fact."""
        self._loop = loop
        self._boot_id = boot_id
        self._emit = emit
        self._note = note
        self._open: dict[str, Open] = {}
        self._readers: dict[str, Reader] = {}
        if config.kernel_log != "none":
            self._open["kernel"] = lambda cursor: self._open_kernel(config, cursor)
        for source in config.logs:
            self._open[source.source] = self._opener(source)

    def start(self) -> None:
        """Open every source and read what it holds since the last time."""
        self.reopen()
        self._loop.every(REOPEN_S, self.reopen)
        if any(reader.fileno() < 0 for reader in self._readers.values()):
            self._loop.every(LOOK_S, self._look)

    def reopen(self) -> None:
        """Open the sources that are closed or broken."""
        for source, opener in self._open.items():
            reader = self._readers.get(source)
            if reader is not None and reader.liveness()["ok"]:
                continue
            self._close(source)
            try:
                self._take_up(source, opener(self._note(NOTE + source)))
            except OSError as error:
                log.warning("The log %s cannot be read: %s", source, error)

    def reader(self) -> dict[str, dict[str, object]]:
        """Give the heartbeat's entries, after a look at every source."""
        for source, reader in list(self._readers.items()):
            if isinstance(reader, KmsgReader | TailReader):
                reader.read()
                self._remember(source, reader.cursor)
        closed: dict[str, object] = {"ok": False}
        return {name: self._readers[name].liveness() if name in self._readers else closed for name in self._open}

    def close(self) -> None:
        """Close every source."""
        for source in list(self._readers):
            self._close(source)

    def _take_up(self, source: str, reader: Reader) -> None:
        self._readers[source] = reader
        if reader.fileno() >= 0:
            self._loop.watch(reader.fileno(), reader.read)
        else:
            reader.read()

    def _close(self, source: str) -> None:
        reader = self._readers.pop(source, None)
        if reader is not None:
            if reader.fileno() >= 0:
                self._loop.unwatch(reader.fileno())
            reader.close()

    def _look(self) -> None:
        for reader in self._readers.values():
            if reader.fileno() < 0:
                reader.read()

    def _remember(self, source: str, cursor: str) -> None:
        if self._note(NOTE + source) != cursor:
            self._emit({}, {NOTE + source: cursor})

    def _outlet(self, source: str, relevant: Callable[[str], bool]) -> Outlet:
        def emit(line: Line) -> None:
            data = {"source": source, "text": line.text, "boot_id": self._boot_id, "cursor": line.cursor}
            event = {"kind": "node.log", "at_ms": line.at_ms, "data": data | {"gap": line.gap}}
            self._emit(event, {NOTE + source: line.cursor})

        return Outlet(source, relevant, emit)

    def _opener(self, source: LogSource) -> Open:
        def opener(cursor: str | None) -> Reader:
            outlet = self._outlet(source.source, prefilter.service)
            if source.path is not None:
                return TailReader(source.source, Path(source.path), outlet, cursor=cursor)
            return JournalReader(source.source, ["-u", source.unit or source.source], outlet, cursor=cursor)

        return opener

    def _open_kernel(self, config: AgentConfig, cursor: str | None) -> Reader:
        outlet = self._outlet("kernel", prefilter.kernel)
        if config.kernel_log in {"auto", "kmsg"}:
            try:
                return KmsgReader(Path(config.kmsg_path), outlet, boot_id=self._boot_id, cursor=cursor)
            except OSError:
                if config.kernel_log == "kmsg":
                    raise
        journal = None if cursor and cursor.startswith(f"{self._boot_id}:") else cursor
        return JournalReader("kernel", ["-k"], outlet, cursor=journal)
