from controlplane.domain.recovery import reference
from controlplane.domain.recovery.conditions import CONDITIONS
from controlplane.runbooks import registry
from tests.architecture.sources import ROOT
from tests.domain.recovery.shelf import CATALOG

PAGE = ROOT / "docs" / "runbooks.md"


def test_the_page_says_what_the_checks_check():
    page = PAGE.read_text()
    tables = reference.tables(registry.built_in(), CONDITIONS, CATALOG.runbooks)
    assert reference.written(page, tables) == page, "run: manage.py runbooks reference docs/runbooks.md"


def test_a_fence_is_opened_by_its_proof_or_a_person_and_by_no_undo():
    assert registry.built_in()["fence_nodes"].undo == ""


def test_a_time_is_written_as_a_file_would_write_it():
    assert [reference.time(seconds) for seconds in (0.5, 1, 90, 3600, 86_400.0)] == [
        "500 ms",
        "1 s",
        "90 s",
        "1 h",
        "1 d",
    ]
