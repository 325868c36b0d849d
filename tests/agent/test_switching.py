"""Switches as an agent arms them, with ranks that obey, ignore or die: real processes, no torch."""

import threading
import time
from pathlib import Path

import middlewatch_agent
import msgspec
import pytest
from middlewatch_agent import switching
from middlewatch_agent.context import Command
from middlewatch_agent.hooks import STOPPED_BY_SWITCH
from middlewatch_agent.hooks.switches import file_of

from tests.agent.launcher.stage import Cluster, wait_for

PATHS = [str(Path(middlewatch_agent.__file__).parents[1]), str(Path(msgspec.__file__).parents[1])]
LOOP = f"""
import sys, time
sys.path[:0] = {PATHS!r}
from middlewatch_agent import hooks
watch = hooks.attach()
for step in range(1, 2000):
    time.sleep(0.01)
    watch.step(step)
    if watch.stop_wanted():
        break
    if watch.save_wanted():
        print("saved", step, flush=True)
hooks.leave(watch)
"""
DEAF = "import time; time.sleep(60)"


class Node(Cluster):
    """One node with its switchboard."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.context.node, self.context.state_dir = "n01", folder / "n01"
        self.board = switching.Switchboard(self.context)

    def begin(self, program: str, ranks: int = 1) -> None:
        self.configure(program, ranks_per_node=ranks)
        self.start(nodes=("n01",))
        for rank in range(ranks):
            self.pid(rank)

    def arm(self, what: str, *, within_s: float = 20.0, command_id: str = "c1", attempt: int = 1, run: str = "demo"):
        args = {"run": run, "attempt": attempt, "what": what}
        deadline_ms = int((time.time() + within_s) * 1000)
        return self.board.arm(Command(command_id=command_id, kind="switch.arm", args=args, deadline_ms=deadline_ms))

    def arm_aside(self, what: str, **args: object) -> tuple[threading.Thread, list]:
        told: list = []
        thread = threading.Thread(target=lambda: told.append(self.arm(what, **args)))
        thread.start()
        wait_for(lambda: file_of(self.context.state_dir, "demo", 1, what).exists())
        return thread, told

    def disarm(self, what: str):
        args = {"run": "demo", "attempt": 1, "what": what}
        return self.board.disarm(Command(command_id="c9", kind="switch.disarm", args=args))

    def log(self, rank: int) -> str:
        return (self.folder / "n01" / "logs" / f"demo.1.{rank}.log").read_text()

    def switches(self) -> list[str]:
        return [path.name for path in (self.context.state_dir / "switches").iterdir()]


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    yield made
    made.close()


def test_both_ranks_of_a_node_save_once_and_say_so_and_nothing_stays_armed(node):
    node.begin(LOOP, ranks=2)
    outcome = node.arm("save")
    assert outcome.state == "succeeded"
    assert outcome.data["acknowledged"] == [0, 1]
    assert outcome.data["step"] >= 1
    assert node.switches() == []
    wait_for(lambda: all("saved" in node.log(rank) for rank in (0, 1)))
    assert [node.log(rank).count("saved") for rank in (0, 1)] == [1, 1]
    assert len(node.living()) == 2


def test_a_kill_switch_ends_the_rank_by_itself_with_a_code_of_its_own(node):
    node.begin(LOOP)
    assert node.arm("kill").data["acknowledged"] == [0]
    wait_for(lambda: node.status(0).get("exit_code") is not None)
    assert node.status(0)["exit_code"] == STOPPED_BY_SWITCH


def test_a_switch_that_nobody_takes_is_disarmed_at_its_deadline(node):
    node.begin(DEAF)
    outcome = node.arm("kill", within_s=0.5)
    assert (outcome.state, outcome.output_tail) == (
        "failed", "no rank took it before the deadline; it is disarmed",
    )  # fmt: skip
    assert node.switches() == []


def test_disarming_ends_the_wait_and_a_second_disarming_changes_nothing(node):
    node.begin(DEAF)
    thread, told = node.arm_aside("save")
    assert node.arm("save", command_id="c2").state == "refused"
    assert node.disarm("save").data == {"disarmed": True}
    thread.join(5)
    assert (told[0].state, told[0].output_tail) == ("failed", "disarmed before any rank took it")
    assert node.disarm("save").data == {"disarmed": False}


def test_a_switch_does_not_outlive_the_ranks_it_was_for(node):
    node.begin(DEAF)
    thread, told = node.arm_aside("save")
    node.stop()
    thread.join(5)
    assert told[0].output_tail == "the ranks ended before any of them took it"
    assert node.switches() == []
    assert "no rank of attempt 1" in node.arm("save").output_tail


def test_a_restarted_agent_takes_its_own_switch_up_again_and_sweeps_old_ones(node):
    node.begin(DEAF)
    node.arm_aside("save", within_s=2.0)
    stale = file_of(node.context.state_dir, "demo", 0, "kill")
    stale.write_text("c0")
    board = switching.Switchboard(node.context)
    assert not stale.exists()
    assert switching._lay(board._path(switching.SwitchArgs(run="demo", attempt=1, what="save")), "c1", 5.0)


@pytest.mark.parametrize("run", ["../demo", "a/b", ".hidden"])
def test_a_name_that_would_leave_the_folder_is_refused(node, run):
    assert node.arm("save", run=run).state == "refused"
