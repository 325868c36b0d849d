"""Beat, worker and senders of a living plane: a call leaves it, and the outside hears that it is well."""

import json

import pytest

from controlplane.embedded.child import wait_until
from tests.notify.conftest import Receiver

pytestmark = pytest.mark.xdist_group("plane")

ARRANGE = """
from datetime import UTC, datetime
from controlplane.notify import actions, arranging
now = datetime.now(UTC)
hook = arranging.add_transport("hook", "webhook", {"url": "%(url)s/hook"}, "root", now)
step = arranging.NewStep(after_s=0, transports=[hook.pk])
arranging.add_rule(arranging.NewRule(name="all", steps=[step]), "root", now)
arranging.add_dead_man("world", "%(url)s/alive", 3600, "root", now)
for number in (1, 2):
    actions.call(f"incident:{number}", severity="critical", loud=True, key=f"k{number}", now=now)
"""
FORGET = """
from controlplane.notify.models import DeadMan, Rule
Rule.objects.all().delete()
DeadMan.objects.all().delete()
"""


def test_two_calls_arrive_as_one_message_within_seconds_beside_a_sign_of_life(live_plane, first_welcome):
    assert first_welcome["nobody"].startswith("Nobody will be called")
    with Receiver() as receiver:
        live_plane.manage("shell", "-c", ARRANGE % {"url": receiver.url})
        try:
            assert live_plane.welcome()["nobody"] == ""
            assert wait_until(lambda: {one["path"] for one in receiver.got} == {"/hook", "/alive"}, 30)
        finally:
            live_plane.manage("shell", "-c", FORGET)
    told = [json.loads(one["body"]) for one in receiver.got if one["path"] == "/hook"]
    assert [len(one["subjects"]) for one in told] == [2]
