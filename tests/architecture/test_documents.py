"""What the documents promise exists."""

import re

import pytest
from django.core.management import get_commands

from tests.architecture.sources import ROOT, files, short

DOCUMENTS = files(".md")
# Pieces of package indexes' names and options, put together here so that this file holds none.
INDEXES = re.compile(
    "|".join(["index" + "-url", "py" + r"pi\.", "registry" + r"\.npm", "artifact" + "ory", "nex" + "us"])
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_links_between_documents_lead_somewhere(path):
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_commands_in_documents_exist(path):
    text = path.read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets
    assert set(re.findall(r"manage\.py ([a-z][a-z_-]*)", text)) <= set(get_commands())


def test_no_file_names_a_package_index():
    named = [
        f"{short(path)}: {found[0]}"
        for path in files(
            ".md", ".py", ".toml", ".txt", ".in", ".yml", ".yaml", "Makefile", "Dockerfile", ".json", ".cfg"
        )
        if (found := INDEXES.search(path.read_text(errors="replace")))
    ]
    assert named == []


def test_the_documents_everybody_looks_for_are_there():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/README.md", "docs/concepts.md", "docs/rest.md"):
        assert (ROOT / name).is_file(), name


def test_the_index_of_the_documents_names_each_of_them():
    index = (ROOT / "docs/README.md").read_text()
    pages = [
        path.name for path in files(".md", under=("docs/",)) if path.parent.name == "docs" and path.name != "README.md"
    ]
    assert [name for name in pages if f"({name})" not in index] == []
