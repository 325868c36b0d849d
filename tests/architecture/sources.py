"""What the architecture tests look at."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("controlplane", "agents", "tests", "bench", "manage.py")


@cache
def files(*suffixes, under=("",)):
    """Every file of the repository with one of `suffixes`, without what is ignored or vendored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.splitlines() if listed.returncode == 0 else _walked()
    return [
        ROOT / name
        for name in sorted(names)
        if name.endswith(suffixes) and name.startswith(under) and "vendor/" not in name and (ROOT / name).is_file()
    ]


def _walked():
    """For a tree that came without its history."""
    skipped = {".venv", "var", "__pycache__", "staticfiles", "node_modules"}
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if not skipped & set(parts) and not parts[0].startswith("."):
            yield "/".join(parts)


def tree(path):
    return ast.parse(path.read_text(), str(path))


def imports(path):
    """Names of the modules that a file imports, wherever in the file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def short(path):
    return str(path.relative_to(ROOT))
