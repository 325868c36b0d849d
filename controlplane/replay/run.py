"""One replay from an empty database to its report."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from controlplane.replay.player import Player
from controlplane.replay.trace import Trace

SCRATCH = "controlplane.settings.replay"
KEPT = ("django_migrations", "django_content_type", "auth_permission")
_TABLES = """
    SELECT quote_ident(relname) FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = 'public' AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> ALL(%s)
    ORDER BY relname
"""

Progress = Callable[[float, float, int], None]


class NotScratch(RuntimeError):
    """A replay was asked for in a database that may hold something."""


def replay(
    path: Path,
    overrides: Mapping[str, Any],
    *,
    complain: Callable[[str], Any] = lambda _: None,
    progress: Progress = lambda _t, _share, _events: None,
    speed: float | None = None,
) -> dict[str, Any]:
    """Play the trace at `path` in the scratch database, which is emptied first, and return the report.

    `progress` is told the time of the trace, the share of the file that was read, and the events so far.

    Raises:
        TraceError: the trace does not fit.
        OSError: it cannot be read.
        NotScratch: the settings are those of an installation.
    """
    if settings.SETTINGS_MODULE != SCRATCH:
        raise NotScratch("replays run in a database of their own, by `manage.py replay`")
    trace = Trace(path)
    with closing(trace):
        _empty()
        player = Player(
            trace, overrides, complain=complain, speed=speed,
            progress=lambda t, events: progress(t, trace.offset / max(1, trace.size), events),
        )  # fmt: skip
        return player.play()


def _empty() -> None:
    """Take away what an earlier replay left, numbers included, so that the next one begins alike."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_TABLES, [list(KEPT)])
        names = [name for (name,) in cursor.fetchall()]
        cursor.execute(f"TRUNCATE {', '.join(names)} RESTART IDENTITY CASCADE")
