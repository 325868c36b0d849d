"""What is understood of Slurm's words without a Slurm."""

import subprocess
import sys
from pathlib import Path

import pytest
from middlewatch_agent.launcher import config, repeats
from middlewatch_agent.launcher.base import RefusedError, StartRequest
from middlewatch_agent.launcher.plan import attempt_record
from middlewatch_agent.launcher.slurm import ends, hostlist, orders, script, states, view
from middlewatch_agent.launcher.slurm.settings import SlurmConfig
from middlewatch_agent.launcher.slurm.successors import Wish, may_begin
from middlewatch_agent.launcher.slurm.tools import Tools, UnknownError
from middlewatch_agent.launcher.slurm.view import Job, Node
from middlewatch_agent.launcher.slurm.world import World

TOML = """
scheduler = "slurm"
[slurm]
{slurm}
[runs.demo]
command = ["python", "train.py"]
checkpoint_dir = "ck"
[nodes."n[01-12]"]
state_dir = "/var/lib/middlewatch/{{node}}"
"""


@pytest.fixture
def settings(tmp_path):
    def load(slurm=""):
        (tmp_path / "launcher.toml").write_text(TOML.format(slurm=slurm))
        return config.load(tmp_path / "launcher.toml")

    return load


@pytest.fixture
def record(settings):
    request = StartRequest(run="demo", attempt=3, nodes=("n02", "n01"), resume_step=0)
    return attempt_record(settings(), request, now_ms=0)


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), ("n1", ["n1"]), ("n[08-10,2],m", ["n08", "n09", "n10", "n2", "m"]),
     ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"])],
)  # fmt: skip
def test_a_list_of_hosts_is_written_out(text, names):
    assert hostlist.expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[a-b]", "n[0-99999999]", "n]1["])
def test_what_is_no_list_of_hosts_or_too_long_a_one_is_refused(text):
    with pytest.raises(ValueError, match="n"):
        hostlist.expand(text)


@pytest.mark.parametrize(
    "raw",
    [
        {"job_id": 7, "job_state": "COMPLETING", "exit_code": 9, "nodes": "n[1-2]", "end_time": 5},
        {"job_id": 7, "job_state": ["FAILED", "COMPLETING"], "nodes": "n[1-2]",
         "exit_code": {"signal": {"id": {"set": True, "number": 9}}, "return_code": {"number": 0}},
         "end_time": {"set": True, "infinite": False, "number": 5}},
    ],
)  # fmt: skip
def test_old_and_new_json_of_a_job_say_the_same(raw):
    job = view.job_of(raw)
    assert (job.job_id, job.state, job.nodes, job.exit_code, job.ends_s) == ("7", "COMPLETING", ("n1", "n2"), 137, 5)


@pytest.mark.parametrize(
    ("word", "state", "answers"),
    [("IDLE", "idle", True), ("MIXED+DRAIN", "draining", True), ("IDLE+DRAIN*", "drained", False),
     ("DOWN+DRAIN+NOT_RESPONDING", "down", False), ("ALLOCATED*", "allocated", False), ("UNKNOWN", "unknown", True)],
)  # fmt: skip
def test_a_nodes_line_gives_state_reason_and_owner(word, state, answers):
    node = view.node_of(
        f"NodeName=n1 NodeAddr=10.0.0.1 State={word} X=(null) Reason=bad fan [root@2026-11-30T13:24:28]"
    )
    assert node == Node(name="n1", state=state, reason="bad fan", address="10.0.0.1", owner="root", answers=answers)


@pytest.mark.parametrize(
    ("state", "reason"),
    [("COMPLETED", "completed"), ("FAILED", "failed"), ("OUT_OF_MEMORY", "failed"), ("NODE_FAIL", "node_fail"),
     ("TIMEOUT", "timeout"), ("PREEMPTED", "preempted"), ("CANCELLED", "killed"), ("NEWWORD", "failed")],
)  # fmt: skip
def test_the_end_of_a_job_gives_the_reason_of_its_attempt(record, state, reason):
    assert ends.exited(record, Job(job_id="7", state=state, exit_code=1), "")["reason"] == reason
    record.stop_asked = True
    assert ends.exited(record, Job(job_id="7", state=state, exit_code=1), "")["by"] == "middlewatch"


@pytest.mark.parametrize(
    ("exit_code", "reason", "state"),
    [(0, "Duplicate jobid", "LAUNCH_FAILED"), (143, "Duplicate jobid", "CANCELLED"), (0, "bad fan", "CANCELLED")],
)
def test_a_cancel_is_a_failed_launch_only_where_slurm_drained_a_node_for_it(exit_code, reason, state):
    job = Job(job_id="7", state="CANCELLED", nodes=("n1",), exit_code=exit_code)
    assert view.unlaunched(job, {"n1": Node(name="n1", state="drained", reason=reason)}).state == state


def test_a_job_that_slurm_has_forgotten_ended_in_an_unknown_way(record):
    told = ends.exited(record, None, "")
    assert (told["reason"], told["exit_code"]) == ("failed", None)
    assert "not known" in told["why"]


@pytest.mark.parametrize(
    ("wanted", "serves"),
    [({}, True), ({"resume_step": 9}, True), ({"resume_step": 3}, False), ({"skip": (4, 5)}, False),
     ({"exclude": ("n01",)}, False), ({"exclude": ("n03",)}, True), ({"attempt": 4}, False)],
)  # fmt: skip
def test_a_successor_serves_as_the_attempt_that_is_asked_for_unless_other_steps_or_nodes_are_wanted(
    record, wanted, serves
):
    record.state, record.resume_step, record.successor = "running", 5, True
    request = StartRequest(**{"run": "demo", "attempt": 3, "nodes": ("n03", "n04"), "resume_step": 5, **wanted})
    assert repeats.forestalled(record, request) is (record if serves else None)
    record.stop_asked = True
    assert repeats.forestalled(record, request) is None


@pytest.mark.parametrize(
    ("reason", "waited_s", "order_s", "may"),
    [("timeout", 0, 0, True), ("preempted", 0, 0, True), ("failed", 999, 0, None), ("failed", 59, 60, None),
     ("node_fail", 60, 60, True), ("completed", 99, 60, False), ("killed", 99, 60, False)],
)  # fmt: skip
def test_whether_a_successor_goes_on_depends_on_how_the_attempt_ended(record, reason, waited_s, order_s, may):
    assert may_begin(record, Wish(), reason, waited_s, order_s) is may
    assert not may_begin(record, Wish(held=True), reason, waited_s, order_s)
    record.stop_asked = True
    assert may_begin(record, Wish(), reason, waited_s, order_s) is False


def test_a_batch_job_is_never_requeued_and_quotes_what_it_is_given(settings):
    job = script.Job(
        mark="middlewatch:x:demo:3", name="demo.3", count=2, ranks_per_node=1, order="{it's}", wanted=("n01", "n02"),
        exclude=("n02", "n03"),
    )  # fmt: skip
    slurm = settings('save_s = 90\npartition = "main"\noptions = { exclusive = "", time = "2:00:00" }').slurm
    given = script.options(slurm, job, "/work", Path("/o"))
    assert {"--no-requeue", "--nodelist=n01,n02", "--exclude=n03", "--signal=B:USR1@90", "--exclusive"} <= {*given}
    text = script.text(slurm, job, "/usr/bin/python3")
    assert "export MIDDLEWATCH_ORDER='{it'\"'\"'s}'" in text
    assert "--kill-on-bad-exit=0 --wait=60" in text


@pytest.mark.parametrize(
    ("comment", "attempt"),
    [("middlewatch:aa:demo:3", "3"), ("middlewatch:bb:demo:12", "12"), ("middlewatch:aa:demo:next", ""),
     ("middlewatch:aa:demo2:3", ""), ("by hand: demo:3", ""), ("", "")],
)  # fmt: skip
def test_a_job_is_known_by_its_comment_whichever_launcher_submitted_it(comment, attempt):
    assert script.attempt_of(comment, "demo") == attempt


@pytest.mark.parametrize(
    ("slurm", "field"),
    [("poll_s = 0", "poll_s"), ("wait_s = 9999", "wait_s"), ('options = { "mail-user" = "x" }', "options"),
     ("ports = [1, 2]", "ports"), ('shell = "sh"', "shell"), ("fence_most = -1", "fence_most")],
)  # fmt: skip
def test_a_mistake_in_the_slurm_part_is_named(settings, slurm, field):
    with pytest.raises(config.ConfigError, match=field):
        settings(slurm)


def test_a_list_of_hosts_names_many_nodes_each_with_a_folder_of_its_own(settings):
    nodes = settings().nodes
    assert len(nodes) == 12
    assert nodes["n07"].state_dir == "/var/lib/middlewatch/n07"


def test_an_order_that_no_job_can_carry_is_refused(settings, record, monkeypatch):
    monkeypatch.setattr(orders, "MAX_BYTES", 100)
    with pytest.raises(RefusedError, match=r"nodes: .* the most is 100"):
        orders.encode(settings(), record)


def test_each_rank_finds_its_place_in_the_order_of_the_attempt(settings, record):
    order = orders.decode(orders.encode(settings(), record))
    assert order.rank_of("n02", 0)[1].rank == 0
    assert order.rank_of("n01", 0)[1].rank == 1
    assert order.rank_of("n01", 0)[0].world_size == 2


def test_a_rank_on_its_way_imports_nothing_that_only_the_agent_needs():
    heavy = "{'middlewatch_wire', 'middlewatch_agent.launcher.processes', 'asyncio', 'logging'}"
    look = f"import middlewatch_agent.launcher.slurm.task, sys; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout.strip() == b"set()"


def test_an_empty_queue_that_comes_with_an_error_is_no_answer(tmp_path):
    (tmp_path / "squeue").write_text("""#!/bin/sh\necho '{"errors": [{"error": "Unspecified error"}], "jobs": []}'\n""")
    (tmp_path / "squeue").chmod(0o755)
    with pytest.raises(UnknownError, match="no answer from the controller"):
        Tools(SlurmConfig(bin_dir=str(tmp_path))).jobs()


class StandInTools:
    """Answers until it is told not to."""

    answering = True
    known = (Job(job_id="7", state="RUNNING"),)

    def jobs(self):
        if not self.answering:
            raise UnknownError("Unable to contact slurm controller")
        return self.known

    def nodes(self):
        return [Node(name="n1", state="idle")]

    def maintenances(self):
        return []


def test_a_silent_controller_leaves_the_picture_and_a_minute_later_counts_as_not_seen(monkeypatch):
    tools = StandInTools()
    world = World(tools, poll_s=1)
    assert world.look(1_000)
    assert not world.look(1_500)
    tools.answering = False
    assert not world.look(3_000)
    assert set(world.jobs) == {"7"}
    assert world.reader()["ok"]
    monkeypatch.setattr("middlewatch_agent.launcher.slurm.world.BLIND_S", 0.0)
    assert not world.reader()["ok"]


def test_a_picture_taken_for_an_act_is_shown_by_the_next_look_unless_something_was_done_since():
    tools = StandInTools()
    world = World(tools, poll_s=1)
    assert world.look(1_000)
    world.renew()
    tools.answering = False
    assert world.look(1_100)
    assert not world.look(1_200)
    tools.answering = True
    world.renew()
    world.hurry()
    tools.answering = False
    assert not world.look(1_300)


def test_a_job_counts_as_forgotten_only_when_answers_have_lacked_it_for_ten_seconds():
    tools = StandInTools()
    world = World(tools, poll_s=1)
    tools.known = ()
    for second, forgotten in ((0, False), (5, False), (11, True)):
        assert world.look(second * 1000)
        assert world.forgotten("7", second * 1000) is forgotten


def test_states_are_told_when_they_change_and_once_a_minute():
    teller, idle = states.Teller(), {"n1": Node(name="n1", state="idle")}
    told = [len(teller.due(states.of_nodes(idle, ["n1"]), at_ms)) for at_ms in (0, 30_000, 60_000)]
    assert told == [1, 0, 1]
    drained = {"n1": Node(name="n1", state="drained", reason="middlewatch: strikes")}
    notice = teller.due(states.of_nodes(drained, ["n1"]), 61_000)[0]
    assert notice.data["owner"] == "middlewatch"
