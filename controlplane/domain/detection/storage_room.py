"""Tell in time that a path runs out of room (D-18, H-11).

Free bytes and inodes are fitted by a straight line over the last hours. Of the many
nodes that see a shared path one is listened to, until it falls silent.
"""

from collections.abc import Mapping
from statistics import correlation, linear_regression
from typing import Any

from controlplane.domain.detection import reading
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.detection.storage_state import Room, StorageState
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-18"
MAX_PATHS = 32
EVERY_S = 300.0
POINTS = 72
"""Six hours of points."""
MIN_POINTS = 6
STRAIGHT = 0.8
"""Correlation below which saves that come and go are no trend."""
SILENT_S = 600.0
HOUR_S = 3600.0
RELIEF = 0.05
"""A warning ends when the room is better than its limit by this share."""


def take(storage: StorageState, signal: Signal, disk: Mapping[str, Any]) -> None:
    """Keep a point of a path's room every five minutes."""
    path, free = reading.text(disk, "path"), reading.number(disk, "free_bytes")
    if not path or free is None or (path not in storage.rooms and len(storage.rooms) >= MAX_PATHS):
        return
    room = storage.rooms.setdefault(path, Room())
    if room.node != signal.node and signal.received - room.heard_at > SILENT_S:
        room.node, room.points = signal.node, []
    if room.node != signal.node or signal.at_ms <= room.heard_ms:
        return
    room.heard_at, room.heard_ms = signal.received, signal.at_ms
    room.total_bytes = reading.number(disk, "total_bytes") or room.total_bytes
    if not room.points or signal.received - room.points[-1][0] >= EVERY_S:
        inodes = reading.number(disk, "free_inodes")
        room.points = [*room.points, [signal.received, free, -1.0 if inodes is None else inodes]][-POINTS:]


def look(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give a warning for each path that is nearly full or soon will be, and the end of such a warning."""
    found = []
    for path, room in state.storage.rooms.items():
        used, hours = used_share(room), hours_left(room)
        bad = (used is not None and used >= policy.room_share) or (hours is not None and hours <= policy.room_hours)
        better = (used is None or used < policy.room_share - RELIEF) and (hours is None or hours > policy.room_hours)
        warned, room.warned = room.warned, bad or (room.warned and not better)
        if room.warned or warned:
            found.append(_finding(state, attempt, path, now))
    return found


def used_share(room: Room) -> float | None:
    """Give which share of a path is used, None while its size is unknown."""
    if not room.points or not room.total_bytes:
        return None
    return 1 - room.points[-1][1] / room.total_bytes


def hours_left(room: Room) -> float | None:
    """Give in how many hours bytes or inodes are used up by a straight line, None when they do not shrink."""
    left = [_left(_column(room, number)) for number in (1, 2)]
    return min((hours for hours in left if hours is not None), default=None)


def _column(room: Room, number: int) -> list[tuple[float, float]]:
    return [(point[0], point[number]) for point in room.points if point[number] >= 0]


def _left(points: list[tuple[float, float]]) -> float | None:
    """Give the hours until a line through the points reaches nothing; None for too few points or no clear fall."""
    if len(points) < MIN_POINTS or points[-1][0] - points[0][0] < HOUR_S:
        return None
    times, values = [at for at, _ in points], [value for _, value in points]
    if len(set(values)) == 1:
        return None
    fit = linear_regression(times, values)
    if fit.slope >= 0 or abs(correlation(times, values)) < STRAIGHT:
        return None
    return max(0.0, (fit.slope * times[-1] + fit.intercept) / -fit.slope) / HOUR_S


def _words(path: str, used: float | None, hours: float | None) -> str:
    full = f"{path} is {round(used * 100)} % full" if used is not None else f"the room of {path} shrinks"
    return full if hours is None else f"{full} and will be full in about {_rounded(hours)} h"


def _rounded(hours: float) -> str:
    """Round as coarsely as such a forecast is good for, so that it is no news with every point."""
    step = 1 if hours < 12 else 6  # noqa: PLR2004 - half a day
    return f"{max(1, round(hours / step) * step)}"


def _finding(state: RunState, attempt: AttemptState, path: str, now: float) -> Finding:
    room = state.storage.rooms[path]
    words = _words(path, used_share(room), hours_left(room)) if room.warned else f"{path} has room again"
    return Finding(
        key=f"{state.run}/{attempt.number}/room/{path}",
        detector=DETECTOR,
        klass="storage_stall",
        stage=Stage.CONFIRMED if room.warned else Stage.CLEARED,
        entity="storage",
        began=room.heard_at,
        at=now,
        run=state.run,
        attempt=attempt.number,
        severity="warning" if room.warned else "info",
        sentence=words,
        facts={"fingerprint": "storage room", "answers": True, "path": path, "hours_left": hours_left(room)},
    )
