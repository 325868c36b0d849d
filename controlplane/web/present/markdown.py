"""Notes of people as HTML: Markdown without HTML, and cleaned once more."""

from functools import lru_cache

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True}).enable("strikethrough")
_TAGS = {
    "p",
    "br",
    "strong",
    "em",
    "s",
    "code",
    "pre",
    "ul",
    "ol",
    "li",
    "blockquote",
    "a",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
}


@lru_cache(maxsize=2048)
def html(text: str) -> SafeString:
    """Render a note. Headings are kept below those of the page; images and raw HTML are left out."""
    rendered = _MARKDOWN.render(text).replace("<h1>", "<h3>").replace("</h1>", "</h3>")
    rendered = rendered.replace("<h2>", "<h4>").replace("</h2>", "</h4>")
    clean = nh3.clean(
        rendered,
        tags=_TAGS,
        attributes={"a": {"href", "title"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)  # noqa: S308 - nh3 has just cleaned it
