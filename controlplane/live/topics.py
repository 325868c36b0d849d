"""Names of what a page can follow.

A topic comes from the address of a socket, so it is untrusted: it is parsed into
a kind and a subject before anything else looks at it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.domain.errors import Invalid

MAX_TOPICS = 8
MAX_TOPIC_LENGTH = 120

_SHAPES = {
    "fleet": re.compile(r""),
    "count": re.compile(r""),
    "run": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"),
    "incident": re.compile(r"[1-9][0-9]{0,17}"),
}


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that changes: `fleet`, `run:<name>`, `incident:<id>`, or `count` (of open incidents)."""

    kind: str
    subject: str = ""

    def __str__(self) -> str:
        """Write the topic as addresses and streams do."""
        return f"{self.kind}:{self.subject}" if self.subject else self.kind

    @property
    def group(self) -> str:
        """Name of the Channels group; a group name knows no colon."""
        return f"live.{self.kind}.{self.subject}" if self.subject else f"live.{self.kind}"


def parse(text: str) -> Topic:
    """Read one topic; raises `Invalid` for anything else."""
    kind, _, subject = text.partition(":")
    shape = _SHAPES.get(kind)
    if shape is None or len(text) > MAX_TOPIC_LENGTH or not shape.fullmatch(subject):
        raise Invalid("topics", f"{text[:40]!r} is not a topic")
    return Topic(kind, subject)


def parse_list(text: str) -> tuple[Topic, ...]:
    """Read a comma-separated list of one to `MAX_TOPICS` topics, each once."""
    parts = text.split(",", MAX_TOPICS + 1) if text else []
    if not parts:
        raise Invalid("topics", "name at least one topic")
    if len(parts) > MAX_TOPICS:
        raise Invalid("topics", f"at most {MAX_TOPICS} topics fit one page")
    return tuple(dict.fromkeys(parse(part) for part in parts))


def parse_since(values: Iterable[str]) -> dict[str, int]:
    """Read `<topic>:<number>` pairs: the last chronicle number that a page knows of each topic."""
    known: dict[str, int] = {}
    for value in ",".join(values).split(","):
        if not value:
            continue
        topic, _, number = value.rpartition(":")
        if not re.fullmatch(r"[0-9]{1,15}", number):
            raise Invalid("since", f"{value[:40]!r} is not <topic>:<number>")
        known[str(parse(topic))] = int(number)
        if len(known) > MAX_TOPICS:
            raise Invalid("since", f"at most {MAX_TOPICS} topics fit one page")
    return known
