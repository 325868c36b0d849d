import threading
import time

import pytest
from middlewatch_agent.commands import MAX_AT_ONCE, NOTE, REMEMBER_LAST, Commands
from middlewatch_agent.context import Command, Outcome
from middlewatch_agent.kinds import BadEventError

NOW_MS = 1_795_921_331_000


class Desk:
    """What the agent would be to its commands."""

    def __init__(self, notes=None, allowed=("collect", "attempt.start")):
        self.told = []
        self.kept = dict(notes or {})
        self.timers = []
        self.now_ms = NOW_MS
        self.changed = threading.Condition()
        self.commands = Commands(
            allowed=frozenset(allowed), tell=self.tell, later=lambda s, call: self.timers.append((s, call)),
            notes=self.kept, clock_ms=lambda: self.now_ms,
        )  # fmt: skip

    def tell(self, event, notes):
        if len(str(event.get("data", {}).get("data", ""))) > 1000:
            raise BadEventError("data: too large")
        with self.changed:
            if event:
                self.told.append(event)
            for key, value in notes.items():
                self.kept.pop(key, None) if value is None else self.kept.update({key: value})
            self.changed.notify_all()

    def states(self):
        return [event["data"]["state"] for event in self.told]

    def wait(self, state):
        with self.changed:
            assert self.changed.wait_for(lambda: state in self.states(), 30), self.states()
        return next(event["data"] for event in self.told if event["data"]["state"] == state)


def command(kind="collect", command_id="c1", **more):
    return Command(command_id=command_id, kind=kind, args={"run": "demo", "attempt": 3}, **more)


def succeed(_command):
    return Outcome(data={"answer": 42})


def test_a_command_is_accepted_running_and_succeeds():
    desk = Desk()
    desk.commands.register("collect", succeed)
    desk.commands.take(command())
    assert desk.wait("succeeded")["data"] == {"answer": 42}
    assert desk.states() == ["accepted", "running", "succeeded"]
    assert (desk.told[0]["run"], desk.told[0]["attempt"]) == ("demo", 3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (command("rm"), "allowed"),
        (command("attempt.start"), "nothing on this node"),
        (command(deadline_ms=NOW_MS - 1), "deadline"),
    ],
)
def test_what_this_node_does_not_allow_cannot_do_or_gets_too_late_is_refused(given, why):
    desk = Desk()
    desk.commands.register("collect", succeed)
    desk.commands.take(given)
    assert why in desk.wait("refused")["output_tail"]
    assert desk.states() == ["refused"]


def test_the_same_command_twice_is_carried_out_once_and_its_result_told_again():
    desk, calls = Desk(), []
    desk.commands.register("collect", lambda given: calls.append(given) or Outcome(data={"n": len(calls)}))
    desk.commands.take(command())
    desk.wait("succeeded")
    desk.commands.take(command())
    assert len(calls) == 1
    assert [e["data"]["data"] for e in desk.told if e["data"]["state"] == "succeeded"] == [{"n": 1}, {"n": 1}]


def test_a_restarted_agent_remembers_what_it_did():
    desk, calls = Desk(), []
    desk.commands.register("collect", succeed)
    desk.commands.take(command())
    desk.wait("succeeded")
    later = Desk(notes=desk.kept)
    later.commands.register("collect", lambda given: calls.append(given) or Outcome())
    later.commands.resume()
    later.commands.take(command())
    assert later.wait("succeeded")["data"] == {"answer": 42}
    assert calls == []


def interrupted(repeatable):
    desk, hold = Desk(), threading.Event()
    desk.commands.register("collect", lambda _: hold.wait(5) and Outcome())
    desk.commands.take(command())
    desk.wait("running")
    kept = dict(desk.kept)
    hold.set()
    later = Desk(notes=kept)
    later.commands.register("collect", succeed, repeatable=repeatable)
    later.commands.resume()
    return later


def test_a_command_cut_short_is_run_again_where_that_is_safe():
    assert interrupted(repeatable=True).wait("succeeded")["data"] == {"answer": 42}


def test_a_command_cut_short_is_reported_as_failed_where_it_is_not():
    assert "cut short" in interrupted(repeatable=False).wait("failed")["output_tail"]


def test_an_exception_is_a_failure_with_its_message():
    def explode(_command):
        raise RuntimeError("no such rank")

    desk = Desk()
    desk.commands.register("collect", explode)
    desk.commands.take(command())
    assert desk.wait("failed")["output_tail"] == "RuntimeError: no such rank"


def test_past_the_deadline_the_command_failed_and_a_late_answer_changes_nothing():
    desk, hold, done = Desk(), threading.Event(), threading.Event()

    def slow(_command):
        hold.wait(5)
        done.set()
        return Outcome()

    desk.commands.register("collect", slow)
    desk.commands.take(command(deadline_ms=NOW_MS + 3000))
    desk.wait("running")
    seconds, expire = desk.timers[0]
    assert seconds == pytest.approx(3.0)
    expire()
    hold.set()
    assert done.wait(5)
    time.sleep(0.05)
    assert "deadline" in desk.wait("failed")["output_tail"]
    assert "succeeded" not in desk.states()


def test_a_result_too_large_to_be_told_is_a_failure_that_is_told():
    desk = Desk()
    desk.commands.register("collect", lambda _: Outcome(data={"x": "y" * 5000}))
    desk.commands.take(command())
    assert "too large" in desk.wait("failed")["output_tail"]


def refused(desk, count):
    """Take so many commands in, a second apart; they end at once."""
    for number in range(count):
        desk.now_ms += 1000
        desk.commands.take(command("rm", command_id=f"c{number:03}"))


def test_old_commands_are_forgotten_but_for_the_last_ones_which_a_wrong_clock_may_call_old():
    desk = Desk()
    refused(desk, REMEMBER_LAST + 20)
    later = Desk(notes=desk.kept)
    later.now_ms = NOW_MS + 30 * 24 * 3600 * 1000
    later.commands.resume()
    assert sorted(later.kept) == [f"{NOTE}c{number:03}" for number in range(20, REMEMBER_LAST + 20)]


def test_an_agent_that_never_ends_forgets_old_commands_too():
    desk = Desk()
    refused(desk, REMEMBER_LAST + 20)
    desk.now_ms += 8 * 24 * 3600 * 1000
    desk.commands.take(command("rm", command_id="new"))
    assert len(desk.kept) == REMEMBER_LAST + 1
    assert NOTE + "new" in desk.kept


def test_a_stop_does_not_wait_behind_long_checks():
    desk, hold = Desk(allowed=("check.run", "ranks.stop")), threading.Event()
    desk.commands.register("check.run", lambda _: hold.wait(5) and Outcome())
    desk.commands.register("ranks.stop", succeed)
    for number in range(MAX_AT_ONCE + 1):
        desk.commands.take(command("check.run", command_id=f"check{number}"))
    desk.commands.take(command("ranks.stop", command_id="stop"))
    try:
        assert desk.wait("succeeded")["command_id"] == "stop"
    finally:
        hold.set()


@pytest.mark.parametrize("bad", ["", "x" * 65])
def test_a_command_with_an_unusable_id_is_ignored(bad):
    desk = Desk()
    desk.commands.take(command(command_id=bad))
    assert desk.told == []


def test_an_unreadable_record_counts_as_done():
    desk = Desk(notes={NOTE + "c1": "{"})
    desk.commands.register("collect", succeed)
    desk.commands.take(command())
    assert desk.states() == ["failed"]


def test_a_refusal_names_the_line_that_would_allow_the_command():
    desk = Desk(allowed=("collect",))
    desk.commands.take(command("switch.arm"))
    assert desk.wait("refused")["output_tail"].endswith('would allow it: commands = ["collect","switch.arm"]')
