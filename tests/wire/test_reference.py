from pathlib import Path

from middlewatch_wire import KINDS, reference

PAGE = Path(__file__).parent.parent.parent / "docs" / "wire.md"


def test_the_page_says_what_the_code_says():
    page = PAGE.read_text()
    assert reference.renew(page) == page, "run: python -m middlewatch_wire.reference docs/wire.md"


def test_every_kind_and_its_fields_are_on_the_page():
    page = PAGE.read_text()
    for kind, data in KINDS.items():
        section = page.split(f"### `{kind}`")[1].split("###")[0]
        assert all(f"| `{field}`" in section for field in data.__struct_fields__)


def test_every_structure_says_what_it_is():
    assert all(data.__doc__ and data.__doc__[0].isupper() for data in KINDS.values())
