"""Every recorded case, replayed and compared with what a good on-call engineer would want of it.

The cases lie beside the project, not in it. One command plays them all, in the scratch
database that people get; each case is then a test of its own. Acting on or blaming the
wrong thing fails always. What may still be missed is listed, and has to be taken off
the list when it comes right.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "cases"
SUFFIX = ".trace.jsonl"
LATER: frozenset[str] = frozenset()
"""Cases that may still be missed; none of them may do harm."""
LIMIT_S = 900

NAMES = sorted(path.name.removesuffix(SUFFIX) for path in CASES.glob(f"*{SUFFIX}"))

pytestmark = [
    pytest.mark.xdist_group("replay"),
    pytest.mark.timeout(LIMIT_S + 60),
    pytest.mark.skipif(not NAMES, reason=f"needs the recorded cases in {CASES}"),
]


@pytest.fixture(scope="session")
def reports():
    """The report of every case by its name."""
    files = [str(CASES / f"{name}{SUFFIX}") for name in NAMES]
    done = subprocess.run(
        [sys.executable, "manage.py", "replay", *files, "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found, done.stderr[-2000:]
    return dict(zip(NAMES, found, strict=False))


@pytest.fixture(scope="session")
def check():
    spec = importlib.util.spec_from_file_location("case_check", CASES / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_night_is_answered_as_a_good_engineer_would(name, reports, check):
    report = reports.get(name, {"error": "no report"})
    assert "error" not in report, report["error"]
    expected = json.loads((CASES / f"{name}.expect.json").read_text())
    missed, harmful = check.judge(expected, report)
    assert not harmful
    if name in LATER:
        assert missed, f"{name} came right: take it off the list of those that may wait"
    else:
        assert not missed
