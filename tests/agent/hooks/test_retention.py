from pathlib import Path

import pytest
from middlewatch_agent.dcp import verdict
from middlewatch_agent.hooks import retention


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Folders whose verdict is their content."""

    def judge(folder, step, *, live=False):
        path = verdict.path_of(folder, step)
        state = (path / "state").read_text()
        return verdict.Verdict(step=step, path=str(path), state=state, why="", bytes=0, files=0)

    monkeypatch.setattr(verdict, "judge", judge)

    def make(**steps: str) -> Path:
        for name, state in steps.items():
            path = tmp_path / name.replace("_", "-")
            path.mkdir()
            (path / "state").write_text(state)
        return tmp_path

    return make


def test_keeps_the_newest_two_complete_ones_whatever_it_is_told(judged):
    folder = judged(step_1="complete", step_2="complete", step_3="complete")
    retention.prune(folder, keep=0)
    assert verdict.steps(folder) == [3, 2]


def test_never_counts_a_torn_one_as_kept(judged):
    folder = judged(step_1="complete", step_2="complete", step_3="torn", step_4="torn")
    retention.prune(folder, keep=2)
    assert verdict.steps(folder) == [4, 3, 2, 1]


def test_clears_torn_ones_that_newer_complete_ones_have_made_useless(judged):
    folder = judged(step_1="torn", step_2="complete", step_3="torn", step_4="complete")
    assert [gone.step for gone in retention.prune(folder, keep=2)] == [1]


def test_touches_nothing_while_there_is_but_one_complete(judged):
    folder = judged(step_1="torn", step_2="torn", step_3="complete")
    assert retention.prune(folder, keep=2) == []
