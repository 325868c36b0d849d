"""Icons, badges, numbers and times for templates."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.web.present import words
from controlplane.web.present.words import Badge

register = template.Library()


def _of_number(write: Callable[[float | None], str]) -> Callable[[Any], str]:
    """Let a template pass what may be missing; a number that is not there is unknown, not zero."""
    return lambda value: write(value if isinstance(value, int | float) else None)


register.filter("number", _of_number(words.number))
register.filter("span", _of_number(words.span))
register.filter("size", _of_number(words.size))
register.filter("span_ms", _of_number(lambda ms: words.span(None if ms is None else ms / 1000)))
register.filter("age", words.age)


@register.simple_tag
def icon(name: str) -> SafeString:
    """Draw one icon of the sprite; it always stands beside a word, so it is hidden from readers."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("img/icons.svg"), name,
    )  # fmt: skip


@register.simple_tag
def badge(mark: Badge) -> SafeString:
    """Write a state as icon and word."""
    return format_html('<span class="badge {}">{}{}</span>', mark.tone, icon(mark.icon), mark.word)


@register.filter
def clock(when: datetime | None) -> SafeString | str:
    """Write a moment as UTC; the page turns it into local time and keeps UTC in the title."""
    return _time(when, "%H:%M:%S UTC", "clock")


@register.filter
def moment(when: datetime | None) -> SafeString | str:
    """Write day and time as UTC, for what may be older than today."""
    return _time(when, "%Y-%m-%d %H:%M UTC", "moment")


@register.filter
def ago(when: datetime | None, now: datetime) -> SafeString | str:
    """Write how long ago something was; the page keeps it counting."""
    if when is None:
        return "never"
    return format_html(
        '<time datetime="{}" data-ago="{}">{}</time>',
        when.astimezone(UTC).isoformat(), int(when.timestamp() * 1000), words.age(when, now),
    )  # fmt: skip


@register.filter
def left(until: datetime, now: datetime) -> str:
    """Write what is left until a moment; the page counts on from there."""
    return words.countdown(until, now)


@register.filter
def epoch_ms(when: datetime | None) -> int | str:
    """Give a moment to scripts."""
    return "" if when is None else int(when.timestamp() * 1000)


@register.filter
def lookup(mapping: Any, key: str) -> Any:
    """Read a key of a mapping that a template knows by a variable."""
    return mapping.get(key) if hasattr(mapping, "get") else None


def _time(when: datetime | None, shape: str, name: str) -> SafeString | str:
    if when is None:
        return "–"
    utc = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-time="{}" title="{}">{}</time>',
        utc.isoformat(), name, utc.strftime("%Y-%m-%d %H:%M:%S UTC"), utc.strftime(shape),
    )  # fmt: skip
