"""Write a chronicle down as Markdown for the review, a ticket or a hand-over.

The text should read well aloud: one sentence for each entry, with its time in
UTC. Sentences hold words from log lines and host names, which are untrusted, so
everything that Markdown or HTML would act on is escaped; only a person's note
keeps its Markdown, as a quotation, without HTML and without loading images.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from controlplane.chronicle.models import Entry
from controlplane.domain.chronicle.kinds import Kind

LATE = timedelta(seconds=10)

_SPECIAL = re.compile(r"[\\`*_{}\[\]()#+!|~<>&$]|(?<=\w)://")
_ENTITY = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "://": "&#58;//"}


def markdown(title: str, entries: Iterable[Entry], now: datetime, *, facts: Sequence[tuple[str, str]] = ()) -> str:
    """Return the chronicle as one Markdown document.

    `facts` are pairs of a word and its value, shown before the entries; `now` is
    the time of the export.
    """
    told = list(entries)
    lines = [f"# {escape(title)}", "", f"All times are UTC. Exported {_moment(now)}."]
    if facts:
        lines += ["", "## Facts", "", *(f"- **{escape(word)}:** {escape(value)}" for word, value in facts)]
    lines += ["", "## Chronicle"]
    lines += _days(told) if told else ["", "Nothing has been told yet."]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return `text` to stand inside a line, with nothing in it that Markdown or HTML would act on."""
    return _SPECIAL.sub(_escaped, " ".join(text.split()))


def _escaped(found: re.Match[str]) -> str:
    return _ENTITY.get(found[0], "\\" + found[0])


def _days(told: Sequence[Entry]) -> list[str]:
    corrected = {entry.corrects_id: entry.number for entry in told if entry.corrects_id}
    lines: list[str] = []
    day = ""
    for entry in told:
        today = entry.happened_at.astimezone(UTC).strftime("%Y-%m-%d")
        if today != day:
            lines += ["", f"### {today}", ""]
            day = today
        lines += _entry(entry, corrected.get(entry.pk))
    return lines


def _entry(entry: Entry, corrected_by: int | None) -> list[str]:
    head = f"- **{entry.happened_at.astimezone(UTC):%H:%M:%S}**, {entry.number}: "
    notes = [*_about(entry), *([f"corrected by number {corrected_by}"] if corrected_by else [])]
    tail = f" *({'; '.join(notes)})*" if notes else ""
    if _is_note(entry):
        return [f"{head}{escape(entry.actor)} noted{tail}:", "", *_quotation(entry.sentence), ""]
    return [f"{head}{escape(entry.sentence)}{tail}"]


def _is_note(entry: Entry) -> bool:
    return entry.kind == Kind.NOTE and entry.actor_kind == "person" and bool(entry.actor)


def _about(entry: Entry) -> list[str]:
    """Who it was, when that is a person; how late it was written down; what it corrects."""
    about = []
    if entry.actor_kind == "person" and entry.actor and not _is_note(entry):
        about.append(f"by {escape(entry.actor)}")
    late = entry.recorded_at - entry.happened_at
    if late > LATE:
        about.append(f"written down {late.total_seconds():.0f} s later")
    if entry.corrects is not None:
        about.append(f"corrects number {entry.corrects.number}")
    return about


def _quotation(text: str) -> list[str]:
    harmless = text.replace("&", "&amp;").replace("<", "&lt;").replace("![", "!\\[")
    return [f"  > {line}".rstrip() for line in harmless.splitlines()]


def _moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
