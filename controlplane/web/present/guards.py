"""The guards in words: switches, breakers, what is left of each budget, and what a switch would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.runs.models import Automation
from controlplane.web.present import badges, words
from controlplane.web.present.words import Badge

EVERYWHERE = "everywhere"
MAX_WHY = 120
MAX_LINE = 120
"""A sentence that is longer is folded on a page that is read on a phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One line of every page's head: automation may not act, or only propose."""

    tone: str
    icon: str
    words: str
    because: str
    since: datetime | None
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """What switching automation off or on will do, in sentences."""

    title: str
    sentences: Sequence[str]


def alarm(row: Automation) -> Alarm:
    """Put a switch that is off, or a breaker that is open, into one line."""
    where = f"for {row.run.name}" if row.run else EVERYWHERE
    url = f"/guards/switch/?run={row.run.name}" if row.run else "/guards/switch/"
    if row.off_at is not None:
        told, because = f"Automation is off {where}", f"by {row.off_by}{_because(row.off_why)}"
        return Alarm(tone="bad", icon="power", words=told, because=because, since=row.off_at, url=url)
    told, because = f"Automation only proposes {where}", f"the breaker is open{_because(row.opened_why)}"
    return Alarm(tone="warn", icon="alert", words=told, because=because, since=row.opened_at, url=url)


def _because(why: str) -> str:
    short = why if len(why) <= MAX_WHY else f"{why[:MAX_WHY].rstrip()}…"
    return f": {short}" if short else ""


def switch_badge(*rows: Automation | None) -> Badge:
    """Give the state of the switches that bind a run together: its own and the fleet's."""
    known = [row for row in rows if row is not None]
    if any(row.off_at for row in known):
        return badges.SWITCH["off"]
    return badges.SWITCH["open" if any(row.opened_at for row in known) else "on"]


def folded(line: str) -> tuple[str, str]:
    """Split a long sentence into what stands first and what is read on demand."""
    head, _, rest = line.partition(": ")
    return (head, words.sentence(rest)) if len(line) > MAX_LINE and rest else (line, "")


def share(used: float, most: float) -> int:
    """Give what is left of a budget, in percent of it."""
    return max(0, min(100, round(100 * (most - used) / most))) if most > 0 else 0


def will_stop(where: str, going: Sequence[str], waiting: int) -> Will:
    """Say what switching off will do."""
    still = f"{words.plural(len(going), 'execution')} under way {'stands' if len(going) == 1 else 'stand'} still"
    called = (
        f"{words.plural(waiting, 'command')} that no agent has taken up {'is' if waiting == 1 else 'are'} called back"
    )
    return Will(
        title=f"Switch automation off {where}?",
        sentences=[
            "No act begins any more, within a second.",
            f"{still}: {', '.join(going)}." if going else "No execution is under way.",
            f"{called}; what an agent has begun ends by itself." if waiting else "No command waits to be called back.",
            "Training goes on: nothing is stopped. Detection, chronicle and messages go on as well.",
        ],
    )


def will_go_on(where: str, found: int, *, breaker: bool) -> Will:
    """Say what switching on, or resetting the breaker, will do."""
    title = f"Reset the breaker {where}?" if breaker else f"Switch automation on {where}?"
    meanwhile = "No incident that is open was found meanwhile."
    if found:
        meanwhile = f"{words.plural(found, 'open incident')} {'was' if found == 1 else 'were'} found meanwhile."
    return Will(title=title, sentences=["Runbooks act again inside their guards.", meanwhile])
