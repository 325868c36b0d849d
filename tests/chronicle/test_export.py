from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from controlplane.chronicle import actions, queries
from controlplane.chronicle.export import escape, markdown
from controlplane.domain.errors import NotFound

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
STREAM = "incident:1"


def tell(sentence, *, after=0, kind="finding", late=0, **more):
    at = NOW + timedelta(seconds=after)
    more = {"actor_kind": "detector"} | more
    return actions.tell(STREAM, kind, sentence, at=at, now=at + timedelta(seconds=late), **more)


def written(**more):
    return markdown("Rank 1 of demo died", queries.entries(STREAM), NOW + timedelta(hours=1), **more)


@pytest.mark.django_db
def test_a_chronicle_reads_as_a_story():
    tell("Rank 1 on n02 died of signal 9.", after=1)
    tell("Stacks of 3 ranks were collected.", after=2, actor_kind="runbook", late=40)
    tell("ana acknowledged.", after=3, actor_kind="person", actor="ana", kind="acknowledge")
    tell("It was the **new** driver.\n\nSee the ticket.", after=86_400, actor_kind="person", actor="ana", kind="note")
    assert written(facts=[("Class", "crash"), ("Steps lost", "12 (measured)")]) == (
        "# Rank 1 of demo died\n"
        "\n"
        "All times are UTC. Exported 2026-11-29 03:00:00.\n"
        "\n"
        "## Facts\n"
        "\n"
        "- **Class:** crash\n"
        "- **Steps lost:** 12 \\(measured\\)\n"
        "\n"
        "## Chronicle\n"
        "\n"
        "### 2026-11-29\n"
        "\n"
        "- **02:00:01**, 1: Rank 1 on n02 died of signal 9.\n"
        "- **02:00:02**, 2: Stacks of 3 ranks were collected. *(written down 40 s later)*\n"
        "- **02:00:03**, 3: ana acknowledged. *(by ana)*\n"
        "\n"
        "### 2026-11-30\n"
        "\n"
        "- **02:00:00**, 4: ana noted:\n"
        "\n"
        "  > It was the **new** driver.\n"
        "  >\n"
        "  > See the ticket.\n"
        "\n"
    )


@pytest.mark.django_db
def test_a_correction_keeps_the_original_and_marks_it():
    wrong = tell("The switch was blamed.")
    right = actions.correct(wrong, "It was the cable.", now=NOW, actor="ana")
    assert (right.kind, right.corrects, right.data) == ("correction", wrong, {"corrects": 1})
    text = written()
    assert "1: The switch was blamed. *(corrected by number 2)*" in text
    assert "2: It was the cable. *(by ana; corrects number 1)*" in text


@pytest.mark.django_db
def test_an_entry_is_found_by_its_number():
    tell("One.")
    assert queries.entry(STREAM, 1).sentence == "One."
    with pytest.raises(NotFound, match="incident:1 has no entry 2"):
        queries.entry(STREAM, 2)


@pytest.mark.django_db
def test_what_the_machine_notes_is_no_quotation():
    tell("Run demo was created for 4 nodes.", kind="note", actor_kind="system")
    assert "1: Run demo was created for 4 nodes." in written()


@pytest.mark.django_db
def test_an_empty_chronicle_says_so():
    assert "Nothing has been told yet." in written()


HARMLESS = {"text", "text_special", "strong_open", "strong_close"}
HOSTILE = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "https://evil.example/ and <https://evil.example/>",
    "line\n# heading\n- item",
    "`code` **bold** _it_ ~~gone~~ a | b &lt; \\*",
    "1. one",
    "- - -",
    "&copy; &#60;b&#62;",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_arrive_as_words(text):
    assert _reads_as_words(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60))
def test_any_words_arrive_as_words(text):
    assert _reads_as_words(text)


def _reads_as_words(text):
    html = (
        MarkdownIt("gfm-like", {"linkify": False}).enable("strikethrough").parse(f"- **02:00:00**, 1: {escape(text)}")
    )
    inline = next(token for token in html if token.type == "inline")
    kinds = {child.type for child in inline.children}
    words = "".join(child.content for child in inline.children)
    return kinds <= HARMLESS and words == f"02:00:00, 1: {' '.join(text.split())}".rstrip()


@pytest.mark.django_db
def test_a_note_cannot_bring_html_or_load_an_image():
    tell("<b onclick=x>hi</b>\n![x](https://evil.example/p.png)", kind="note", actor_kind="person", actor="ana")
    html = MarkdownIt("commonmark", {"html": True}).render(written())
    assert "<img" not in html
    assert "<b " not in html
    assert "&lt;b onclick=x&gt;hi" in html
