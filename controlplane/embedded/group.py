"""Keep a group of programs running: start in order, restart what crashes, stop in reverse order.

All children are started by one thread that lives as long as the group. The
kernel ties a child to the *thread* that forked it, so a child started from a
passing thread would be killed when that thread ends.
"""

import contextlib
import os
import queue
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from controlplane.embedded.child import Child, Program
from controlplane.embedded.errors import CannotStart

TICK_S = 0.1
BACK_OFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
STEADY_S = 60.0
LOG_TAIL = 800
ROLL_EVERY_S = 30.0
MOST_LOG_BYTES = 32 * 1024 * 1024

Say = Callable[[str], None]


class Group:
    """Programs by name, in the order in which they were started."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._children: dict[str, Child] = {}
        self._programs: dict[str, Program] = {}
        self._stopping: set[str] = set()
        self._crashes: dict[str, int] = {}
        self._due: dict[str, tuple[float, Program]] = {}
        self._asked: queue.Queue[tuple[Program, Future[int]]] = queue.Queue()
        self._next_roll = 0.0
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._keeper.start()

    def start(self, program: Program) -> int:
        """Start a program and return its process id.

        Raises:
            CannotStart: when the name is in use or the program cannot be executed.
        """
        if self.running(program.name):
            raise CannotStart(f"{program.name} runs already.")
        if not self._keeper.is_alive():
            raise CannotStart("The group has stopped.")
        answer: Future[int] = Future()
        self._asked.put((program, answer))
        try:
            return answer.result()
        except OSError as error:
            raise CannotStart(f"{program.name} cannot be started: {error}.") from None

    def program(self, name: str) -> Program:
        """Return the program that was started under this name.

        Raises:
            CannotStart: when there was none.
        """
        try:
            return self._programs[name]
        except KeyError:
            raise CannotStart(f"There is no program {name}.") from None

    def pids(self) -> dict[str, int]:
        """Return the process id of each program that runs now."""
        with self._lock:
            return {name: child.pid for name, child in self._children.items() if not child.ended()}

    def running(self, name: str) -> bool:
        """Tell whether the program runs at this moment."""
        return name in self.pids()

    def stop(self, name: str) -> None:
        """Stop one program and do not restart it; nothing happens when it does not run."""
        with self._lock:
            child = self._children.get(name)
            self._due.pop(name, None)
            self._stopping.add(name)
        if child:
            child.stop()
        with self._lock:
            self._children.pop(name, None)
            self._stopping.discard(name)

    def close(self) -> None:
        """Stop everything, last started first; guests, which are not restarted, are asked all at once before."""
        self._closing.set()
        with self._lock:
            self._due.clear()
            names = list(self._children)
            guests = [child for child in self._children.values() if not child.program.restart]
            self._stopping.update(child.program.name for child in guests)
        for child in guests:
            child.ask_to_end()
        for name in reversed(names):
            self.stop(name)
        self._keeper.join()

    def _keep(self) -> None:
        """Run the keeper thread; it outlives every child."""
        while self._children or not self._closing.is_set():
            self._answer_one()
            now = time.monotonic()
            self._notice_ends(now)
            self._restart_due(now)
            self._roll_logs(now)

    def _answer_one(self) -> None:
        try:
            program, answer = self._asked.get(timeout=TICK_S)
        except queue.Empty:
            return
        try:
            answer.set_result(self._launch(program))
        except (OSError, CannotStart) as error:
            answer.set_exception(error)

    def _launch(self, program: Program) -> int:
        with self._lock:
            if self._closing.is_set():
                raise CannotStart("The group is stopping.")
            self._due.pop(program.name, None)
            before = self._children.get(program.name)
            if before:
                before.reap()
            child = Child(program, time.monotonic())
            self._programs[program.name] = program
            self._children[program.name] = child
            return child.pid

    def _notice_ends(self, now: float) -> None:
        with self._lock:
            ended = [
                child for name, child in self._children.items()
                if name not in self._stopping and child.ended()
            ]  # fmt: skip
            for child in ended:
                del self._children[child.program.name]
        for child in ended:
            self._after_end(child, now)

    def _after_end(self, child: Child, now: float) -> None:
        program, how = child.program, _how(child.reap())
        if not program.restart or self._closing.is_set():
            return
        crashes = 0 if now - child.started > STEADY_S else self._crashes.get(program.name, 0)
        delay = BACK_OFF_S[min(crashes, len(BACK_OFF_S) - 1)]
        self._crashes[program.name] = crashes + 1
        with self._lock:
            self._due[program.name] = (now + delay, program)
        self._say(f"{program.name} ended ({how}); restarting in {delay:.0f} s. Log: {program.log}")

    def _restart_due(self, now: float) -> None:
        with self._lock:
            due = [program for at, program in self._due.values() if at <= now]
        for program in due:
            try:
                self._launch(program)
            except (OSError, CannotStart) as error:
                with self._lock:
                    self._due[program.name] = (now + BACK_OFF_S[-1], program)
                self._say(f"{program.name} cannot be restarted: {error}")

    def _roll_logs(self, now: float) -> None:
        if now < self._next_roll:
            return
        self._next_roll = now + ROLL_EVERY_S
        with self._lock:
            logs = [child.program.log for child in self._children.values()]
        for log in logs:
            roll(log)


def roll(log: Path) -> None:
    """Keep a log bounded: past the limit its content moves to `<log>.1`. Writers append, so they go on undisturbed."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > MOST_LOG_BYTES:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def tail(program: Program) -> str:
    """Return the end of a program's log, for a message about its failure."""
    try:
        return program.log.read_bytes()[-LOG_TAIL:].decode(errors="replace").strip()
    except OSError:
        return ""


def _how(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
