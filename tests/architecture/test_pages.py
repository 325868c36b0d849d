"""What the strict Content-Security-Policy asks of templates."""

import re

import pytest

from tests.architecture.sources import files, short

TEMPLATES = files(".html", under=("templates/",))


@pytest.mark.parametrize("path", TEMPLATES, ids=short)
def test_a_template_holds_nothing_inline_and_loads_nothing_from_elsewhere(path):
    text = re.sub(r"{#.*?#}|{% comment %}.*?{% endcomment %}", "", path.read_text(), flags=re.DOTALL)
    tags = re.findall(r"<(?!!)[a-z][^>]*>", text)
    scripts = [tag for tag in tags if tag.startswith("<script") and "src=" not in tag and "application/json" not in tag]
    styles = [tag for tag in tags if tag.startswith("<style") or re.search(r"\sstyle=", tag)]
    handlers = [tag for tag in tags if re.search(r"\son[a-z]+=", tag)]
    foreign = [
        tag
        for tag in tags
        if re.search(r"\ssrc=[\"']?(https?:)?//", tag) or re.search(r"<link[^>]*href=[\"']?(https?:)?//", tag)
    ]
    assert scripts + styles + handlers + foreign == []


@pytest.mark.parametrize("path", TEMPLATES, ids=short)
def test_a_form_that_writes_carries_its_token(path):
    forms = re.findall(
        r"<form\b[^>]*method=[\"']post[\"'].*?</form>", path.read_text(), flags=re.DOTALL | re.IGNORECASE
    )
    assert [form for form in forms if "csrf_token" not in form] == []
