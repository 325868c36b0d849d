"""Files that are edited while the control plane lives, and files that mean no good."""

import pytest

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.document import Problem
from controlplane.runbooks import files, registry

TEXT = """\
runbook: own
code: OPS-1
version: 1
title: Own
summary: Does it.
steps:
  - do: stop
"""


@pytest.fixture
def folder(tmp_path, settings, monkeypatch):
    """A folder of the operator's own, on a shelf that looks at its files each time."""
    settings.RUNBOOK_FOLDERS = [str(tmp_path)]
    monkeypatch.setattr(registry, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(registry, "_shelf", None)
    return tmp_path


def test_an_edit_needs_no_restart_and_a_mistake_leaves_the_last_sound_version_in_force(folder):
    path = folder / "own.yaml"
    path.write_text(TEXT)
    first = registry.runbook("own")
    path.write_text(TEXT.replace("version: 1", "version: 2"))
    assert registry.runbook("own").version == 2
    assert registry.runbook("own").digest != first.digest
    path.write_text(TEXT.replace("version: 1", "version: three"))
    assert registry.runbook("own").version == 2
    (problem,) = registry.loaded().problems[str(path)]
    assert problem == Problem(3, "version", "must be a number from 1 to 1000000")
    path.write_text("")
    assert registry.runbook("own").version == 2
    path.unlink()
    with pytest.raises(NotFound):
        registry.runbook("own")


def test_what_uses_a_broken_runbook_stays_as_it_was_too(folder):
    part, whole = folder / "part.yaml", folder / "whole.yaml"
    part.write_text(TEXT.replace("runbook: own", "runbook: part"))
    whole.write_text(TEXT.replace("do: stop", "use: part"))
    before = registry.runbook("own")
    part.write_text("steps: [")
    assert registry.runbook("own") == before
    assert set(registry.loaded().problems) == {str(part), str(whole)}


def test_the_operators_files_never_take_the_place_of_a_shipped_runbook(folder):
    (folder / "own.yaml").write_text(TEXT.replace("runbook: own", "runbook: roll-back"))
    assert registry.runbook("roll-back").code == "R-08"
    assert "is also in" in registry.loaded().problems[str(folder / "own.yaml")][0].why


def test_the_shipped_files_are_all_sound():
    assert files.read_all([registry.SHIPPED])[1] == {}
    assert not [source for source in registry.loaded().problems if source.startswith(str(registry.SHIPPED))]


def test_files_beyond_the_limit_are_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILES", 2)
    for name in "abcd":
        (tmp_path / f"{name}.yaml").write_text(TEXT)
    documents, problems = files.read_all([tmp_path])
    assert [document.source for document in documents] == [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    assert problems == {str(tmp_path / "c.yaml"): [Problem(1, "", "is not read: there are more than 2 files")]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: is empty"),
        ("a: 1\na: 2\n", "line 2: a stands twice"),
        ("a: &x 1\nb: *x\n", "line 1: anchors and aliases"),
        ("a: *x\n", "line 1: anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1: tags (!) are not allowed"),
        ("a: !x 1\n", "line 1: tags (!) are not allowed"),
        ("a:\n  " + "[" * 900, "line 2: is nested deeper than 8"),
        ("a: [" + "1, " * 5000 + "1]", "line 1: has more than 4000 values"),
        ("? [a, b]\n: 1\n", "line 1: a name must be a plain word"),
        ("a: 1\nb: [\n", "line 3: expected the node content, but found '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "line 2: but found another document"),
        ("a: 1\nb: 2026-13-45\n", "line 2: has a value that cannot be read"),
        (f"a: 1\nb: {'9' * 5000}\n", "line 2: has a value that cannot be read"),
        ("a: \x00\n", "line 1: is not YAML"),
        ("%TAG ! tag:x,2026:\n---\na: !x 1\n", "line 3: tags (!) are not allowed"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_refused_with_its_line(text, told):
    with pytest.raises(files.UnreadableError) as error:
        files.parse(text)
    assert str(error.value.problem).startswith(told)


def test_a_file_that_is_too_large_no_utf8_or_not_readable_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    for raw, told in ((b"a" * 70_000, "is larger than 65536 bytes"), (b"a: 1\nb: \xff\n", "line 2: is not UTF-8")):
        path.write_bytes(raw)
        with pytest.raises(files.UnreadableError) as error:
            files.read(path)
        assert told in str(error.value.problem)
    path.unlink()
    path.mkdir()
    with pytest.raises(files.UnreadableError, match="cannot be read: Is a directory"):
        files.read(path)
