"""What browsers load is ours or vendored, whole, and small."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from django.template.loader import get_template

from controlplane.domain.chronicle import kinds
from controlplane.web.present import badges

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "static/vendor"
SUMS = dict(reversed(line.split()) for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
MAX_SCRIPTS_GZIP = 60_000


def test_every_vendored_file_is_the_one_whose_sum_is_written_down():
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in SUMS} == SUMS


def test_every_vendored_script_and_style_has_a_sum():
    files = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.suffix in {".js", ".css"}}
    assert files <= set(SUMS)


def test_every_badge_has_an_icon_and_a_word():
    sprite = set(re.findall(r'symbol id="([a-z]+)"', (ROOT / "static/img/icons.svg").read_text()))
    for family in badges.FAMILIES.values():
        for mark in family.values():
            assert mark.word
            assert mark.icon in sprite


def test_every_kind_of_entry_has_an_icon_that_exists():
    sprite = set(re.findall(r'symbol id="([a-z]+)"', (ROOT / "static/img/icons.svg").read_text()))
    assert {look.icon for look in [*kinds.LOOKS.values(), kinds.UNKNOWN]} <= sprite


def test_the_scripts_of_a_page_stay_small():
    scripts = [*(ROOT / "static/js").glob("*.js"), *VENDOR.glob("*.js")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in scripts) < MAX_SCRIPTS_GZIP


@pytest.mark.parametrize("path", sorted((ROOT / "templates").rglob("*.html")), ids=lambda path: path.name)
def test_no_template_holds_an_inline_script_a_style_or_a_foreign_address(path):
    text = path.read_text()
    assert not re.search(r"<script(?![^>]*(src=|application/json))", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|hx-on", text)
    assert not re.search(r"(src|href)=[\"']https?://", text)
    get_template(str(path.relative_to(ROOT / "templates")))


def test_the_style_guide_leaves_out_no_badge():
    alone = [mark for mark in vars(badges).values() if isinstance(mark, badges.Badge)]
    shown = [mark for family in badges.FAMILIES.values() for mark in family.values()]
    assert alone
    assert [mark for mark in alone if mark not in shown] == []
