"""Who may import whom."""

import ast
import sys

from importlinter.cli import lint_imports

from tests.architecture.sources import ROOT, files, imports, short, tree

# A reducer that reads a clock, rolls dice or looks around cannot be replayed.
IMPURE = {
    "asyncio", "multiprocessing", "os", "pathlib", "random", "secrets", "socket", "subprocess", "tempfile", "threading",
    "time", "urllib",
}  # fmt: skip
SIGNALS = ("django.dispatch", "django.db.models.signals", "django.core.signals")


def test_the_contracts_between_packages_are_kept(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    verdict = lint_imports(config_filename=str(ROOT / ".importlinter"), cache_dir=None)
    assert verdict == 0, capsys.readouterr().out


def test_the_domain_imports_the_standard_library_alone_and_nothing_impure():
    wrong = [
        f"{short(path)}: {name}"
        for path in files(".py", under=("controlplane/domain/",))
        for name in imports(path)
        if not name.startswith("controlplane.domain")
        and (name.partition(".")[0] not in sys.stdlib_module_names or name.partition(".")[0] in IMPURE)
    ]
    assert wrong == []


def test_torch_is_imported_by_the_hooks_and_checks_alone():
    wrong = [
        short(path)
        for path in files(".py", under=("agents/", "controlplane/"))
        if not {"hooks", "checks", "demo"} & set(path.parts) and path.stem not in {"hooks", "train"}
        for name in imports(path)
        if name.partition(".")[0] == "torch"
    ]
    assert wrong == []


def test_no_app_talks_to_another_by_django_signals():
    wrong = [
        f"{short(path)}: {name}"
        for path in files(".py", under=("controlplane/",))
        for name in imports(path)
        if name.startswith(SIGNALS)
    ]
    assert wrong == []


# Who may read the wall clock; everybody else gets the time as an argument.
CLOCK_READERS = {"web", "live", "ingest", "embedded", "demo", "management", "migrations"}
WALL = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("timezone", "now"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
}


def test_only_views_tasks_commands_and_loops_read_a_clock():
    wrong = [
        f"{short(path)}:{node.lineno}"
        for path in files(".py", under=("controlplane/",))
        if not CLOCK_READERS & set(path.parts) and path.name != "tasks.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in WALL
    ]
    assert wrong == []
