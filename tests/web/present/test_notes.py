"""What people write is shown as they meant it and does nothing else."""

import pytest

from controlplane.web.present.markdown import html


def test_markdown_is_rendered():
    assert html("**bold** and `code`") == "<p><strong>bold</strong> and <code>code</code></p>\n"


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](https://example.org/pixel.png)",
        "<a href='javascript:alert(1)'>x</a>",
        "[x](data:text/html,hi)",
        "<svg onload=alert(1)>",
        "<style>*{display:none}</style>",
    ],
)
def test_nothing_hostile_survives(hostile):
    shown = html(hostile).lower()
    for tag in ("<script", "<img", "<svg", "<style", 'href="javascript', 'href="data'):
        assert tag not in shown


def test_links_tell_the_other_side_nothing():
    assert 'rel="noopener noreferrer nofollow"' in html("[x](https://example.org)")


def test_a_note_cannot_outshout_the_page():
    assert "<h1" not in html("# loud")
