"""What a training loop learns of switches, without any agent."""

import json
import os
import time
from pathlib import Path

import pytest
from middlewatch_agent import hooks
from middlewatch_agent.hooks import switches
from middlewatch_agent.hooks.meetings import MAX_GAP, Meetings
from middlewatch_agent.hooks.switches import KILL, SAVE, file_of


@pytest.fixture
def watch(tmp_path, monkeypatch):
    monkeypatch.setattr(switches, "LOOK_S", 0.0)
    environ = {
        "MIDDLEWATCH_SOCKET": str(tmp_path / "agent.sock"),
        "MIDDLEWATCH_RUN": "demo",
        "MIDDLEWATCH_ATTEMPT": "3",
    }
    (tmp_path / "switches").mkdir()
    return hooks.attach(environ)


def lay(tmp_path: Path, what: str, *, attempt: int = 3, for_s: float = 60.0) -> Path:
    path = file_of(tmp_path, "demo", attempt, what)
    path.write_text("c1")
    os.utime(path, (time.time() + for_s,) * 2)
    return path


def test_without_a_switch_nothing_is_wanted(watch):
    watch.step(1)
    assert (watch.save_wanted(), watch.stop_wanted(), watch.stopping) == (False, False, False)


def test_a_loop_that_is_not_watched_is_never_asked():
    assert hooks.attach({}).save_wanted() is False


def test_a_save_switch_is_taken_once_and_acknowledged_with_its_step(watch, tmp_path):
    path = lay(tmp_path, SAVE)
    watch.step(7)
    assert [watch.stop_wanted(), watch.save_wanted(), watch.save_wanted()] == [False, True, False]
    assert json.loads(Path(f"{path}.ack.0").read_text()) == {"step": 7}
    watch.step(8)
    assert watch.save_wanted() is False


def test_a_save_switch_armed_again_is_taken_again(watch, tmp_path):
    lay(tmp_path, SAVE).unlink()
    for _ in range(2):
        path = lay(tmp_path, SAVE, for_s=60.0 + _)
        assert watch.save_wanted() is True
        path.unlink()


def test_a_kill_switch_holds_from_then_on(watch, tmp_path):
    path = lay(tmp_path, KILL)
    assert watch.stop_wanted() is True
    path.unlink()
    assert (watch.stop_wanted(), watch.stopping) == (True, True)


def test_a_switch_of_another_attempt_or_one_past_its_time_means_nothing(watch, tmp_path):
    lay(tmp_path, KILL, attempt=2)
    lay(tmp_path, SAVE, for_s=-1.0)
    assert (watch.stop_wanted(), watch.save_wanted()) == (False, False)


def test_fast_steps_cost_a_look_at_the_clock_and_seldom_one_at_the_disk(watch, tmp_path, monkeypatch):
    monkeypatch.setattr(switches, "LOOK_S", 60.0)
    assert watch.save_wanted() is False
    lay(tmp_path, SAVE)
    assert watch.save_wanted() is False
    watch._switches._look_at.clear()
    assert watch.save_wanted() is True


class Store:
    """The store of a process group, kept in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)

    def get(self, key: str) -> bytes:
        return self.kept[key]

    def set(self, key: str, value: str) -> None:
        self.kept[key] = value.encode()

    def delete_key(self, key: str) -> bool:
        return self.kept.pop(key, None) is not None


class Ranks:
    """Three ranks in step; rank 0 sees `switch`. `order` says who comes first after each step."""

    def __init__(self, pace_s: float) -> None:
        self.now, self.pace_s, self.switch = 0.0, pace_s, None
        self.store = Store()
        self.met = [
            Meetings(self.store, leads=rank == 0, name="demo/1", look=self.look, clock=lambda: self.now)
            for rank in range(3)
        ]

    def look(self) -> str | None:
        found, self.switch = self.switch, None
        return found

    def step(self, number: int, order: tuple[int, ...] = (0, 1, 2)) -> list[str | None]:
        self.now += self.pace_s
        told = {rank: self.met[rank].attend(number) for rank in order}
        return [told[rank] for rank in range(3)]


def test_all_ranks_take_a_switch_after_the_same_step_whoever_comes_first():
    ranks, taken = Ranks(pace_s=0.05), []
    for number in range(1, 120):
        if number == 40:
            ranks.switch = SAVE
        told = ranks.step(number, order=[(0, 1, 2), (2, 1, 0), (1, 0, 2)][number % 3])
        assert len(set(told)) == 1, "the ranks did not agree"
        taken += [number for one in told[:1] if one]
    assert len(taken) == 1
    assert 40 < taken[0] <= 40 + 2 * 0.5 / 0.05 + 1


def test_ranks_with_slow_steps_meet_after_each_and_those_with_fast_ones_seldom():
    slow = Ranks(pace_s=20.0)
    for number in range(1, 6):
        slow.step(number)
    slow.switch = KILL
    assert slow.step(6) == [None] * 3
    assert slow.step(7) == [KILL] * 3
    fast = Ranks(pace_s=1e-6)
    for number in range(1, 3000):
        fast.step(number)
    assert fast.met[0]._number < 3 + 3000 / MAX_GAP * 2


def test_a_store_that_goes_away_ends_the_meetings_and_nothing_else():
    ranks = Ranks(pace_s=1.0)
    ranks.step(1)
    ranks.store.check = lambda _: (_ for _ in ()).throw(RuntimeError("connection reset"))
    assert ranks.step(2) == [None] * 3
    assert ranks.step(3) == [None] * 3


def test_little_is_left_in_the_store():
    ranks = Ranks(pace_s=1.0)
    for number in range(1, 50):
        ranks.step(number)
    assert len(ranks.store.kept) <= 3
