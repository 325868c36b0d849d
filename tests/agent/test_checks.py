"""Checks that the node's own configuration names, and nothing else."""

import sys
import time

import pytest
from middlewatch_agent import checks
from middlewatch_agent.config import AgentConfig, Check, ConfigError, load
from middlewatch_agent.context import Command

from tests.agent.launcher.stage import StandInContext
from tests.patience import within


def run(tmp_path, program: str, *, timeout_s: float = 20.0, check: str = "memory", **args: object):
    settings = named(command=(sys.executable, "-S", "-c", program), timeout_s=timeout_s)
    context = StandInContext(tmp_path, settings)
    command = Command(command_id="c1", kind="check.run", args={"check": check, **args})
    return checks.Checker(context)(command), context.of("check.result")


def named(**check: object) -> AgentConfig:
    return AgentConfig(checks=(Check(name="memory", **check),))


@pytest.mark.parametrize(
    ("program", "outcome"),
    [("print('all well')", "pass"), ("raise SystemExit(1)", "fail"), ("raise SystemExit(2)", "could_not_check"),
     ("import os; os.kill(os.getpid(), 9)", "could_not_check")],
)  # fmt: skip
def test_the_exit_code_says_how_it_ended(tmp_path, program, outcome):
    told, events = run(tmp_path, program)
    assert told.state == "succeeded"
    assert told.data["outcome"] == outcome
    assert events[0]["data"]["outcome"] == outcome


def test_a_check_that_hangs_says_nothing_about_the_node_and_leaves_no_process(tmp_path):
    began = time.monotonic()
    told, _ = run(tmp_path, "import os, time; print('begun', flush=True); os.fork(); time.sleep(60)", timeout_s=0.4)
    assert time.monotonic() - began < within(5)
    assert told.data["outcome"] == "could_not_check"
    assert told.output_tail == "begun\nnot finished within 0.4 s"


def test_the_control_plane_may_shorten_the_time_of_a_check_but_not_lengthen_it(tmp_path):
    assert "within 0.3 s" in run(tmp_path, "import time; time.sleep(60)", budget_s=0.3)[0].output_tail
    assert "within 0.2 s" in run(tmp_path, "import time; time.sleep(60)", timeout_s=0.2, budget_s=50)[0].output_tail


def test_only_the_end_of_what_it_says_is_kept_and_its_last_line_may_be_what_it_measured(tmp_path):
    told, events = run(tmp_path, "print('x' * 9000); print('{\"gbps\": 12.5, \"nested\": {}}')")
    assert len(told.output_tail) <= checks.TAIL_BYTES
    assert events[0]["data"]["measured"]["gbps"] == 12.5
    assert "nested" not in events[0]["data"]["measured"]


def test_a_program_that_is_not_there_could_not_check(tmp_path):
    context = StandInContext(tmp_path, named(command=("/no/such/program",)))
    told = checks.Checker(context)(Command(command_id="c1", kind="check.run", args={"check": "memory"}))
    assert told.data["outcome"] == "could_not_check"
    assert told.output_tail == "/no/such/program: No such file or directory"


@pytest.mark.parametrize("args", [{"check": "rm -rf /"}, {"command": ["sh"]}, {"budget_s": 0}])
def test_whatever_the_node_does_not_name_is_refused(tmp_path, args):
    told, events = run(tmp_path, "", **{"check": "memory", **args})
    assert told.state == "refused"
    assert events == []


def test_two_checks_of_one_name_stop_the_start(tmp_path):
    (tmp_path / "agent.toml").write_text('checks = [{name = "a", command = ["x"]}, {name = "a", command = ["y"]}]')
    with pytest.raises(ConfigError, match="checks: 'a' is there twice"):
        load(tmp_path)
