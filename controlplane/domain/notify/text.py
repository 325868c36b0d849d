"""The words of a message: the first line is all that a telephone shows, so it says everything.

Several incidents at once become one message that names the worst.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.chronicle.words import count, cut
from controlplane.domain.notify.rules import weight

PUSH_MAX = 300
LISTED = 5
"""Incidents that one message tells one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Something that a link in the message may do until a time: its word, and what the link is made for."""

    word: str
    purpose: str
    subject: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One subject as it stands when the message is sent; `over` when nobody is needed any more.

    `asks` are what its links may do besides acknowledging; `links` are the addresses, each behind its word:
    of pages where a person decides, and, once it is sent, those that were made of `asks`.
    """

    subject: str
    sentence: str
    run: str = ""
    klass: str = ""
    severity: str = "critical"
    cost: str = ""
    doing: str = ""
    next: str = ""
    url: str = ""
    acknowledge_url: str = ""
    acknowledged: str = ""
    over: bool = False
    asks: tuple[Ask, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def line(self) -> str:
        """State, cost, what is done and what follows, in one line."""
        parts = [self.sentence, self.cost, _led("Doing", self.doing), _led("Next", self.next)]
        return " ".join(f"{part.rstrip('.')}." for part in parts if part)


def _led(word: str, text: str) -> str:
    return f"{word}: {text[:1].lower()}{text[1:]}" if text else ""


def worst_first(told: Sequence[Told]) -> list[Told]:
    """Order by severity; of equal ones the first told stays first."""
    return sorted(told, key=lambda one: -weight(one.severity))


def first_line(told: Sequence[Told]) -> str:
    """Return the text of a push message, at most PUSH_MAX characters."""
    if len(told) == 1:
        return cut(told[0].line, PUSH_MAX)
    runs = len({one.run for one in told if one.run})
    where = f" on {count(runs, 'run')}" if runs else " of the fleet"
    if all(one.over for one in told):
        return cut(f"{len(told)} incidents{where} are over; the last: {told[-1].line}", PUSH_MAX)
    return cut(f"{len(told)} incidents{where}; the worst: {worst_first(told)[0].line}", PUSH_MAX)


def body(told: Sequence[Told], more_url: str) -> str:
    """Return the whole message as plain text; it begins with the push text."""
    ordered = worst_first(told)
    parts = [first_line(told), *(_paragraph(one, alone=len(told) == 1) for one in ordered[:LISTED])]
    if len(ordered) > LISTED:
        parts.append(f"{len(ordered) - LISTED} more: {more_url}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _paragraph(one: Told, *, alone: bool) -> str:
    """Tell one subject; alone, its facts stand in the first line already."""
    links = [("Acknowledge", one.acknowledge_url), *one.links]
    whole = alone and len(one.line) <= PUSH_MAX
    return "\n".join(
        filter(
            None,
            ["" if whole else one.line, one.acknowledged, one.url, *(f"{word}: {url}" for word, url in links if url)],
        )
    )


def severity(told: Sequence[Told]) -> str:
    """Return the worst severity of all."""
    return max((one.severity for one in told), key=weight, default="info")
