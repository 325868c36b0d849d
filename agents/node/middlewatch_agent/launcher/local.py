"""Start the ranks of several (local) nodes as processes of this machine.

Every rank hangs on a shim in a session of its own, so the ranks and the record of
their ends outlive a killed agent; a restarted one finds them by the attempt file
and takes them up again. One rank's end does not end the others here: whether the
attempt is lost is judged by the control plane, which has the evidence of all nodes.
"""

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from middlewatch_agent.launcher import plan, processes, repeats, scanning, tidy
from middlewatch_agent.launcher.base import RefusedError, Report, Started, StartError, StartRequest, Stopped
from middlewatch_agent.launcher.config import LauncherConfig
from middlewatch_agent.launcher.rank_ends import RankEnd, has_status, rank_end, was_claimed
from middlewatch_agent.launcher.records import AttemptRecord, Records
from middlewatch_agent.launcher.spawn import Spawner

START_GRACE_MS = 10_000
"""How long after its start an attempt's missing status file means nothing yet."""
RESUME_START_MS = 30_000
"""A start that was cut short by the agent's death is finished within this age, else given up."""
SETTLE_S = 5.0
SETTLE_LOOK_S = 0.01
SIGNAL_BASE = 128


class LocalLauncher:
    """The local adapter; see `base.Launcher` for the meaning of each call."""

    scheduler = "local"

    def __init__(self, config: LauncherConfig, folder: Path) -> None:
        """Keep attempt files in `folder`."""
        self._config = config
        self._records = Records(folder)
        self._lock = threading.RLock()
        self._spawner = Spawner(config)
        self._sockets = plan.sockets(config)

    # start

    def start(self, request: StartRequest, *, now_ms: int) -> Started:
        """Start an attempt, once however often it is asked."""
        with self._lock:
            record = repeats.again(self._records.newest(request.run), request) or self._new(request, now_ms=now_ms)
            if record.state == "starting":
                self._spawn_all(record)
            return Started(job_id=record.job_id, world_size=record.world_size)

    def _new(self, request: StartRequest, *, now_ms: int) -> AttemptRecord:
        record = plan.attempt_record(self._config, request, now_ms=now_ms)
        before = self._records.newest(request.run)
        if before and before.state != "ended" and self._ends(before, now_ms) is None:
            raise RefusedError(f"attempt {before.attempt} of run {request.run} still lives")
        if left := processes.of_run(request.run, self._sockets):
            raise RefusedError(
                f"attempt {left[0].attempt} of run {request.run} still has {len(left)} living processes, "
                f"one is {left[0].pid} on {left[0].node}"
            )
        self._records.save(record)
        return record

    def _spawn_all(self, record: AttemptRecord) -> None:
        try:
            for rank in record.ranks:
                if not was_claimed(rank):
                    self._spawner.spawn(record, rank)
        except OSError as error:
            processes.end(lambda: processes.of_run(record.run, self._sockets, record.attempt), 0.0)
            record.why = f"could not be started: {error}"
            record.state = "running"
            self._records.save(record)
            raise StartError(record.why) from error
        record.state = "running"
        self._records.save(record)
        tidy.forget_old(self._config, record.run, record.attempt)

    # stop

    def stop(self, run: str, attempt: int, *, grace_s: float | None) -> Stopped:
        """Ask, then force every process of an attempt to end, and prove that none is left."""
        configured = self._config.run(run)
        with self._lock:
            self._ask_to_stop(run, attempt)
        self._let_shims_settle(run, attempt)

        def look() -> list[processes.RankProcess]:
            return processes.of_run(run, self._sockets, attempt)

        survivors = processes.end(look, configured.grace_s if grace_s is None else grace_s)
        return Stopped(survivors=tuple(process.describe() for process in survivors))

    def _ask_to_stop(self, run: str, attempt: int) -> None:
        record = self._records.newest(run)
        if record is None or (record.attempt < attempt and record.exited_told):
            self._records.save(repeats.never_started(run, attempt))
        elif record.attempt == attempt and record.state != "ended" and self._ends(record, 0) is None:
            record.stop_asked = True
            self._records.note(record)

    def _let_shims_settle(self, run: str, attempt: int) -> None:
        """Wait until shims that were started this moment have their rank, or a stop could come before its start."""
        record = self._records.newest(run)
        if record is None or record.attempt != attempt or record.state != "running" or record.why:
            return
        deadline = time.monotonic() + SETTLE_S
        while not all(has_status(rank) for rank in record.ranks) and time.monotonic() < deadline:
            time.sleep(SETTLE_LOOK_S)

    # reports

    def live(self) -> bool:
        """Whether any attempt is under way."""
        with self._lock:
            return any(record.state != "ended" or not record.exited_told for record in self._newest())

    def poll(self, *, now_ms: int) -> Sequence[Report]:
        """Reports that are due: starts that happened and attempts whose ranks have all ended."""
        with self._lock:
            self._spawner.reap()
            return [report for record in self._newest() for report in self._reports(record, now_ms)]

    def told(self, report: Report) -> None:
        """Note that a report is durable."""
        with self._lock:
            record = self._records.newest(report.run)
            if record is None or record.attempt != report.attempt:
                return
            if report.kind == "attempt.started":
                record.started_told = True
            else:
                record.exited_told = True
                record.state = "ended"
            self._records.note(record)

    def take_up(self, *, now_ms: int) -> None:
        """At the start of the agent, warm up, and finish starts that were cut short (too old: end what there is)."""
        with self._lock:
            self._spawner.warm_up()
            for record in self._newest():
                if record.state != "starting":
                    continue
                if now_ms - record.started_at_ms <= RESUME_START_MS and not record.stop_asked:
                    with suppress(StartError):  # its end is reported like any other
                        self._spawn_all(record)
                else:
                    self._give_up(record)

    def close(self) -> None:
        """End warm processes; ranks live on."""
        self._spawner.close()

    def reader(self) -> None:
        """Have nothing to see: the launcher is the scheduler."""

    def _give_up(self, record: AttemptRecord) -> None:
        processes.end(lambda: processes.of_run(record.run, self._sockets, record.attempt), 0.0)
        record.state, record.why = "running", "the launcher died while it started the attempt"
        self._records.save(record)

    def _newest(self) -> list[AttemptRecord]:
        found = (self._records.newest(run) for run in self._config.runs)
        return [record for record in found if record]

    def _reports(self, record: AttemptRecord, now_ms: int) -> list[Report]:
        if record.state != "running":
            return []
        due = [] if record.started_told else [repeats.started(record, self.scheduler)]
        ends = self._ends(record, now_ms)
        return due if ends is None else [*due, _exited(record, ends)]

    def _ends(self, record: AttemptRecord, now_ms: int) -> list[RankEnd] | None:
        young = not record.why and now_ms - record.started_at_ms < START_GRACE_MS
        ends = [rank_end(rank, young=young) for rank in record.ranks]
        known = [end for end in ends if end is not None]
        return known if len(known) == len(ends) else None

    # checkpoints

    def scan(self, run: str, newest: int) -> Sequence[dict[str, Any]]:
        """Judge the newest checkpoints in a process of its own. Raises StartError where it fails."""
        return scanning.scan(self._config, run, newest, live=bool(processes.of_run(run, self._sockets)))


def _exited(record: AttemptRecord, ends: Sequence[RankEnd]) -> Report:
    bad = sorted((end for end in ends if end.exit_code != 0), key=lambda end: end.exited_at_ms or sys.maxsize)
    reason = "killed" if record.stop_asked else "failed" if bad else "completed"
    first = bad[0] if bad else RankEnd(exit_code=0)
    exit_code = SIGNAL_BASE + first.signal if first.signal else first.exit_code
    data = {"reason": reason, "exit_code": exit_code, **({"why": record.why} if record.why else {})}
    return Report(kind="attempt.exited", run=record.run, attempt=record.attempt, data=data)
