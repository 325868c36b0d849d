"""What docstrings and documents name by a number or a code can be looked up in docs/."""

import re
from dataclasses import fields

from controlplane.domain.detection.policy import RunPolicy
from tests.architecture.sources import ROOT, files, short

PAGE = ROOT / "docs/methods.md"
READ = files(".py", ".md")
METHODS = re.compile(r"\bmethods?\s+(\d+(?:\.\d+)?(?:(?:,\s+|\s+and\s+)\d+(?:\.\d+)?)*)", re.IGNORECASE)
CODE = re.compile(r"\b[DRLCH]-\d\d\b")
ELSEWHERE = re.compile(r"\b(?:requirements?|systems|pages|labs)\s+[A-Z]-?\d")
INVENTED = {"D-99"}
"""What tests call a detector that does not exist."""


def test_every_method_that_is_named_has_its_heading():
    known = set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", PAGE.read_text(), flags=re.MULTILINE))
    unknown = [
        f"{short(path)}: methods {number}"
        for path in READ
        for named in METHODS.findall(path.read_text())
        for number in re.findall(r"\d+(?:\.\d+)?", named)
        if number not in known
    ]
    assert unknown == []


def test_every_code_that_is_named_stands_in_a_table_of_the_documents():
    rows = [
        line for path in files(".md", under=("docs/",)) for line in path.read_text().splitlines() if line[:1] == "|"
    ]
    known = set(CODE.findall("\n".join(rows))) | INVENTED
    unknown = [
        f"{short(path)}: {code}" for path in READ for code in CODE.findall(path.read_text()) if code not in known
    ]
    assert unknown == []


def test_no_file_leans_on_a_paper_that_a_reader_does_not_have():
    assert [short(path) for path in READ if ELSEWHERE.search(path.read_text())] == []


def test_the_page_of_methods_gives_each_setting_its_real_default():
    defaults = {item.name: item.default for item in fields(RunPolicy)}
    given = re.findall(r"`([a-z]\w*)`\s+(\d+(?:\.\d+)?)", PAGE.read_text())
    assert {name: value for name, value in given if float(value) != defaults.get(name)} == {}
    assert given


def test_the_page_of_methods_names_modules_that_exist():
    named = re.findall(r"`([a-z]\w*/[\w./]+)`", PAGE.read_text())
    homes = (ROOT, ROOT / "controlplane/domain")
    lost = [
        name for name in named if not any((home / f"{name}{end}").exists() for home in homes for end in ("", ".py"))
    ]
    assert lost == []
