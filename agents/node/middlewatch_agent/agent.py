"""Put the parts together and run them until somebody says stop.

Threads: the loop (hooks, logs, ranks, timers), the sender, the long poll, the
health measurement, and one for each command under way. Whatever may block has
a thread; whatever the loop does is short.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from middlewatch_agent import identity, kinds
from middlewatch_agent.backoff import Backoff
from middlewatch_agent.commands import NOTE as COMMAND_NOTE
from middlewatch_agent.commands import Commands
from middlewatch_agent.config import AgentConfig
from middlewatch_agent.context import Handler
from middlewatch_agent.files import private_folder
from middlewatch_agent.health import Health
from middlewatch_agent.hooksocket import HookSocket
from middlewatch_agent.loop import Loop
from middlewatch_agent.poller import Poller
from middlewatch_agent.ranks.logs import RankLogs
from middlewatch_agent.ranks.patterns import PatternWatch
from middlewatch_agent.ranks.status import RankStatus
from middlewatch_agent.ranks.watch import RanksWatch
from middlewatch_agent.readers.group import LogReaders
from middlewatch_agent.sender import Sender
from middlewatch_agent.spool import Spool, waiting
from middlewatch_agent.transport import Connection, Token

log = logging.getLogger(__name__)

SPOOL_FILE = "spool.db"
TOKEN_FILE = "token"  # noqa: S105 - the name of a file
PATTERN_NOTE = "pattern:"
RANK_LOGS_S = 0.5
"""Whoever recovers a crash waits for what its survivors write."""
PATTERNS_S = 5.0
IDENTIFY_S = 3.0
FLUSH_AT_END_S = 2.0
POLL_MARGIN_S = 15.0
STACK_BYTES = 512 << 10


class Agent:
    """Implements AgentContext. The caller holds the lock on the state folder."""

    def __init__(self, state_dir: Path, config: AgentConfig) -> None:
        """Make folders, spool and socket. Raises OSError, ValueError (address) or re.error (watch pattern)."""
        self._state_dir = state_dir
        self._config = config
        self._began = time.monotonic()
        self._capabilities = {"watch"}
        self._threads: list[threading.Thread] = []
        self._readers: dict[str, Callable[[], Mapping[str, Any] | None]] = {}
        self._prepare_folders()
        self.incarnation = uuid.uuid4().hex
        self.loop = Loop()
        self.spool = Spool(state_dir / SPOOL_FILE, config.spool, incarnation=self.incarnation)
        self._health = Health(
            gpu=config.gpu, disks=config.disks or (str(state_dir),), period_s=config.health_s, emit=self.emit,
            ranks=self._rank_processes,
        )  # fmt: skip
        self._token = Token(state_dir / TOKEN_FILE)
        self.sender = Sender(
            self.spool, self._connection(), self._token, node=config.node, hello=self._hello,
            flush_s=config.flush_s, backoff=self._backoff(), nudge=self._nudge,
        )  # fmt: skip
        self._commands = Commands(
            allowed=frozenset(config.commands), tell=self._tell, later=self._later,
            notes=self.spool.notes(COMMAND_NOTE), clock_ms=_now_ms,
        )  # fmt: skip
        self._poller = Poller(
            self._connection(config.poll_s + POLL_MARGIN_S), self._token, incarnation=self.incarnation,
            wait_s=config.poll_s, take=self._commands.take, backoff=self._backoff(),
        )  # fmt: skip
        self._hooks = HookSocket(state_dir, self._emit_hooks)
        self._rank_logs = RankLogs(self._tell, self.spool.note)
        self._ranks = RanksWatch(
            state_dir / "ranks", self.loop, node=config.node, emit_once=self._emit_all_once,
            forget=self.spool.forget_told, changed=self._ranks_changed,
        )  # fmt: skip
        self._patterns = PatternWatch(config.watch, self._pattern_found)
        self._logs = LogReaders(config, self.loop, boot_id=identity.boot_id(), emit=self._tell, note=self.spool.note)

    # ── AgentContext ───────────────────────────────────────────────────────

    @property
    def node(self) -> str:
        """Name of this node."""
        return self._config.node

    @property
    def state_dir(self) -> Path:
        """Folder of this agent."""
        return self._state_dir

    @property
    def config(self) -> AgentConfig:
        """Settings."""
        return self._config

    def found_ranks(self) -> Sequence[RankStatus]:
        """Living ranks that were found by a pattern."""
        return self._ranks.adopted()

    def emit(self, event: Mapping[str, Any], urgent: bool = False) -> None:  # noqa: FBT001, FBT002
        """Spool one event."""
        self._emit_all([event], urgent=urgent)

    def emit_once(self, key: str, event: Mapping[str, Any], urgent: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Spool one event under a key that counts once."""
        return self._emit_all_once(key, [event], urgent=urgent)

    def register_command(self, kind: str, handler: Handler, *, repeatable: bool = False) -> None:
        """Let a handler carry out a kind of command."""
        self._commands.register(kind, handler, repeatable=repeatable)

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Call from the loop at an interval."""
        self.loop.soon(lambda: self.loop.every(seconds, call))

    def add_reader(self, name: str, read: Callable[[], Mapping[str, Any] | None]) -> None:
        """Tell in each heartbeat how well a plug-in sees something."""
        self._readers[name] = read

    def declare(self, capability: str) -> None:
        """Name a capability for `node.hello`."""
        self._capabilities.add(capability)

    # ── life ───────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Work until `stop`; then send what waits, briefly."""
        threading.stack_size(STACK_BYTES)
        self._capabilities.update(f"command:{kind}" for kind in self._commands.kinds())
        self._start_loop_parts()
        self._commands.resume()
        for name, target in (("sender", self.sender.run), ("health", self._health.run), ("poll", self._poller.run)):
            self._start_thread(name, target)
        log.info("Watching node %s for %s", self.node, self._config.url)
        try:
            self.loop.run()
        finally:
            self._close()

    def stop(self) -> None:
        """Let `run` return; may be called from a signal handler."""
        self.loop.stop()

    def _start_loop_parts(self) -> None:
        self.loop.watch(self._hooks.fileno(), self._hooks.read)
        self._ranks.start()
        for value in self.spool.notes(PATTERN_NOTE).values():
            self._pattern_found(msgspec.json.decode(value, type=RankStatus))
        self._logs.start()
        self.loop.every(RANK_LOGS_S, self._rank_logs.read)
        self.loop.every(self._config.heartbeat_s, self._heartbeat, first_s=0.0)
        if self._config.watch:
            self.loop.every(PATTERNS_S, self._patterns.scan, first_s=0.0)

    def _start_thread(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _close(self) -> None:
        self._poller.stop()
        self._health.stop()
        self._ranks.close()
        self._logs.close()
        self._hooks.close()
        self.sender.close(FLUSH_AT_END_S)
        self._threads[0].join(FLUSH_AT_END_S + 1.0)
        if not self._threads[0].is_alive():
            self.spool.close()
        self.loop.close()

    # ── events ─────────────────────────────────────────────────────────────

    def _emit_all(
        self,
        events: Sequence[Mapping[str, Any]],
        notes: Mapping[str, str | None] | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        now_ms = _now_ms()
        self.spool.put([waiting(event["kind"], kinds.encode(event, now_ms), urgent=urgent) for event in events], notes)
        self._wake(events, urgent=urgent)

    def _emit_all_once(self, key: str, events: Sequence[Mapping[str, Any]], *, urgent: bool = False) -> bool:
        now_ms = _now_ms()
        items = [waiting(event["kind"], kinds.encode(event, now_ms), urgent=urgent) for event in events]
        fresh = self.spool.put_once(key, items)
        if fresh:
            self._wake(events, urgent=urgent)
        return fresh

    def _wake(self, events: Sequence[Mapping[str, Any]], *, urgent: bool) -> None:
        for kind in {event["kind"] for event in events}:
            self.sender.wake(kind, urgent=urgent)

    def _tell(self, event: Mapping[str, Any], notes: Mapping[str, str | None]) -> None:
        self._emit_all([event] if event else [], notes)

    def _emit_hooks(self, events: list[dict[str, Any]]) -> None:
        try:
            self._emit_all(events)
        except kinds.BadEventError:
            for event in events:
                self._emit_hook(event)

    def _emit_hook(self, event: dict[str, Any]) -> None:
        try:
            self.emit(event)
        except kinds.BadEventError:
            self._hooks.malformed += 1

    # ── what is told about ourselves ───────────────────────────────────────

    def _hello(self) -> dict[str, Any]:
        self._health.identified.wait(IDENTIFY_S)
        return identity.hello(labels=self._config.labels, capabilities=self._capabilities, gpus=self._health.gpus)

    def _heartbeat(self) -> None:
        lag_ms = round(self.loop.lag_s * 1000.0, 1)
        self.spool.tick()
        spool: dict[str, Any] = {**self.spool.stats(), "dropped_by_kind": self.spool.dropped()}
        if self.spool.fault is not None:
            spool["error"] = self.spool.fault
        self._tell_malformed()
        readers = {
            "hooks": {"ok": True, "last_read_age_s": 0.0}, "ranks": self._ranks.reader(),
            "health": self._health.reader(), **self._logs.reader(), **self._plugged_readers(),
        }  # fmt: skip
        uptime_s = round(time.monotonic() - self._began, 1)
        data = {"uptime_s": uptime_s, "readers": readers, "spool": spool, "lag_ms": lag_ms}
        self.sender.heartbeat(data, _now_ms())

    def _plugged_readers(self) -> dict[str, Mapping[str, Any]]:
        found = ((name, read()) for name, read in self._readers.items())
        return {name: reader for name, reader in found if reader is not None}

    def _tell_malformed(self) -> None:
        count, self._hooks.malformed = self._hooks.malformed, 0
        if count:
            text = f"{count} datagrams of training hooks were malformed"
            log.warning("%s", text)
            self.emit({"kind": "node.log", "data": {"source": "agent", "text": text}})

    # ── ranks ──────────────────────────────────────────────────────────────

    def _ranks_changed(self) -> None:
        self._rank_logs.follow(self._ranks.live)
        live = {status.key for status in self._ranks.live.values()}
        over = [key for key in self.spool.notes(PATTERN_NOTE) if key.removeprefix(PATTERN_NOTE) not in live]
        if over:
            self.spool.put((), dict.fromkeys(over))

    def _pattern_found(self, status: RankStatus) -> None:
        self.spool.put((), {PATTERN_NOTE + status.key: msgspec.json.encode(status).decode()})
        self._ranks.adopt(status)

    def _rank_processes(self) -> list[dict[str, Any]]:
        return self._ranks.processes()

    # ── small parts ────────────────────────────────────────────────────────

    def _nudge(self) -> None:
        self._poller.nudge()

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.loop.soon(lambda: self.loop.later(delay_s, call))

    def _connection(self, answer_s: float = 30.0) -> Connection:
        return Connection(self._config.url, ca_file=self._config.ca_file, answer_s=answer_s)

    def _backoff(self) -> Backoff:
        return Backoff(max_s=self._config.longest_pause_s())

    def _prepare_folders(self) -> None:
        for folder in (self._state_dir, self._state_dir / "ranks", self._state_dir / "worker"):
            private_folder(folder)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
