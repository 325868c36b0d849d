"""A night by a given clock: who is told, when, and when it stops."""

from datetime import timedelta

from controlplane.chronicle.models import Entry
from controlplane.domain.notify.text import Told
from controlplane.notify import actions, arranging, pruning, queries
from controlplane.notify.models import Call, Message

from .conftest import after


def paths(receiver):
    return [one["path"].strip("/") for one in receiver.got]


def test_a_page_arrives_within_seconds_with_state_cost_and_what_follows(night, receiver, transport, rule, world):
    world["incident:1"] = Told(
        subject="incident:1", sentence="Run demo is stopped", cost="8 GPUs idle", doing="Draining"
    )
    rule((0, transport()))
    night.call()
    night.until(5)
    assert [one["text"] for one in [receiver.json(0)]] == ["Run demo is stopped. 8 GPUs idle. Doing: draining."]
    assert receiver.json(0)["subjects"][0]["acknowledge_url"].startswith("https://watch.example.org/")
    assert queries.told("incident:1").messages[0].proof == "200 noted"


def test_the_same_key_calls_once(night, receiver, transport, rule):
    rule((0, transport()))
    assert [night.call(), night.call()] == [True, False]
    night.until(10)
    assert len(receiver.got) == 1


def test_a_storm_arrives_as_one_message(night, receiver, transport, rule):
    rule((0, transport()))
    for number in range(40):
        night.call(number, run=f"run-{number % 3}")
    night.until(30, step=3)
    assert len(receiver.got) == 1
    assert receiver.json()["text"].startswith("40 incidents on 3 runs; the worst: ")


def test_a_storm_that_takes_its_time_still_arrives_as_one_message_within_ten_seconds(night, receiver, transport, rule):
    rule((0, transport()))
    for number in range(9):
        night.call(number)
        night.until(night.second + 1)
    assert receiver.got == []
    night.until(12)
    assert receiver.json()["text"].startswith("9 incidents")


def test_a_storm_that_goes_on_arrives_once_a_minute(night, receiver, transport, rule):
    rule((0, transport()))
    for number in range(30):
        night.call(number)
        night.until(night.second + 4, step=4)
    night.until(200, step=4)
    assert len(receiver.got) in (3, 4)
    assert Message.objects.filter(state="pending").count() == 0


def test_escalation_goes_on_from_step_to_step_until_somebody_acknowledges(night, receiver, transport, rule):
    rule((0, transport("ana")), (300, transport("ben")), (300, transport("cleo")))
    night.call()
    night.until(200, step=5)
    assert paths(receiver) == ["ana"]
    night.until(400, step=5)
    assert paths(receiver) == ["ana", "ben"]
    actions.acknowledged("incident:1", "ben", after(410))
    night.until(1500, step=20)
    assert paths(receiver) == ["ana", "ben"]
    assert queries.told("incident:1").acknowledged_by == "ben"


def test_attempt_after_attempt_of_one_incident_comes_as_one_conversation_until_it_is_over(
    night, receiver, transport, rule
):
    rule((0, transport("ana")), (300, transport("ben")))
    for attempt in range(4):
        night.call(key=f"attempt {attempt}")
        night.until(night.second + 80, step=5)
    assert paths(receiver) == ["ana", "ben"]
    actions.ended("incident:1", after(night.second))
    night.until(night.second + 20, step=5)
    night.call(key="attempt 5")
    night.until(night.second + 80, step=5)
    assert (sorted(paths(receiver)[2:4]), paths(receiver)[4:]) == (["ana", "ben"], ["ana"])
    assert receiver.json(4)["thread"] == receiver.json(0)["thread"]


def test_what_becomes_part_of_something_else_goes_on_as_that_and_calls_nobody_twice(
    night, receiver, transport, rule, world
):
    world["incident:9"] = Told(subject="incident:9", sentence="Two runs lost a switch")
    rule((0, transport("ana")), (300, transport("ben")))
    night.call(1)
    night.until(20, step=5)
    night.call(2)
    for number in (1, 2):
        actions.hand_over(f"incident:{number}", "incident:9")
    night.call(9)
    night.until(400, step=5)
    assert paths(receiver) == ["ana", "ben"]
    assert receiver.json()["text"].startswith("Two runs lost a switch")
    assert actions.acknowledged("incident:9", "ben", after(night.second)) > 0
    night.until(5000, step=100)
    assert paths(receiver) == ["ana", "ben"]


def test_an_escalation_that_nobody_answers_begins_anew_after_an_hour(night, receiver, transport, rule):
    rule((0, transport("ana")), (60, transport("ben")))
    night.call()
    night.until(70, step=10)
    night.until(3500, step=300)
    assert paths(receiver) == ["ana", "ben"]
    night.until(3780, step=20)
    assert paths(receiver) == ["ana", "ben", "ana", "ben"]


def test_an_acknowledgement_that_nothing_follows_is_reminded_of(night, receiver, transport, rule):
    rule((0, transport("ana")), (60, transport("ben")), remind_s=600)
    night.call()
    night.until(10)
    actions.acknowledged("incident:1", "ana", after(10))
    night.until(600, step=10)
    assert paths(receiver) == ["ana"]
    night.until(700, step=10)
    assert paths(receiver) == ["ana", "ana", "ben"]


def test_a_note_is_told_once_and_escalates_to_nobody(night, receiver, transport, rule):
    rule((0, transport("ana")), (60, transport("ben")), takes="both")
    night.call(loud=False)
    night.until(300, step=5)
    assert paths(receiver) == ["ana"]


def test_two_rules_that_name_one_place_tell_it_once(night, receiver, transport, rule):
    ana = transport()
    rule((0, ana))
    rule((0, ana), name="day")
    night.call()
    night.until(100, step=2)
    assert len(receiver.got) == 1


def test_the_end_is_told_once_to_those_who_were_told(night, receiver, transport, rule, world):
    rule((0, transport("ana")), (300, transport("ben")))
    night.call(1)
    night.call(2)
    night.until(10)
    actions.ended("incident:1", after(10))
    night.until(20)
    assert len(receiver.got) == 1
    world["incident:2"] = Told(subject="incident:2", sentence="Run demo recovered after 20 s", over=True)
    actions.ended("incident:2", after(20))
    actions.ended("incident:2", after(21))
    night.until(600, step=10)
    assert [(one["path"], receiver.json(n)["kind"]) for n, one in enumerate(receiver.got)] == [
        ("/ana", "call"), ("/ana", "ended"),
    ]  # fmt: skip
    assert receiver.json(0)["thread"] == receiver.json(1)["thread"]


def test_what_is_over_before_anybody_was_told_is_told_to_nobody(night, receiver, transport, rule):
    rule((0, transport()))
    night.call()
    night.until(1)
    actions.ended("incident:1", after(1))
    night.until(30)
    assert receiver.got == []
    assert set(Message.objects.values_list("state", flat=True)) == {"suppressed"}


def test_maintenance_keeps_still_and_ends_by_itself(night, receiver, transport, rule):
    rule((0, transport()))
    arranging.open_window(["demo"], 10, "ana", after(0))
    night.call(1)
    night.call(2, run="other")
    night.until(500, step=20)
    assert [receiver.json(n)["subjects"][0]["subject"] for n in range(len(receiver.got))] == ["incident:2"]
    night.until(700, step=20)
    assert len(receiver.got) == 2


def test_who_cannot_be_reached_is_skipped_at_once(night, receiver, transport, rule):
    receiver.replies = [404]
    rule((0, transport("ana")), (3600, transport("ben")))
    night.call()
    night.until(15)
    assert paths(receiver) == ["ana", "ben"]


def test_a_call_that_no_rule_wants_says_so(night, transport, rule):
    rule((0, transport()), runs=["other"])
    night.call()
    night.until(2)
    assert queries.told("incident:1").nobody
    assert Call.objects.get().rules == 0


def test_a_transport_or_rule_that_is_off_tells_nobody(night, receiver, transport, rule):
    ana = transport()
    made = rule((0, ana), (10, ana))
    arranging.enable_transport(ana, "root", after(0), enabled=False)
    night.call()
    night.until(5)
    arranging.enable_transport(ana, "root", after(0), enabled=True)
    arranging.enable_rule(made, "root", after(0), enabled=False)
    night.until(60)
    assert receiver.got == []


def test_what_is_long_over_is_forgotten_and_what_is_open_stays_however_old(night, transport, rule):
    keep, much_later = timedelta(days=90), after(30) + timedelta(days=90)
    rule((0, transport()))
    night.call(1)
    night.call(2)
    night.until(10)
    actions.ended("incident:1", after(10))
    night.until(20)
    assert pruning.prune(after(5), keep) == 0
    assert (pruning.prune(much_later, keep), Message.objects.count()) == (1, 1)
    actions.ended("incident:2", after(20))
    night.until(30)
    assert pruning.prune(much_later + timedelta(days=1), keep) == 3
    assert not Call.objects.exists()
    assert not Message.objects.exists()


def test_the_chronicle_of_the_fleet_says_who_changed_whom_we_tell_and_until_when(transport, rule):
    ana, now = transport(), after(60)
    night = rule((0, ana))
    arranging.enable_rule(night, "ben", now, enabled=False)
    arranging.enable_rule(night, "cyd", now, enabled=False)
    window = arranging.open_window(["demo"], 10, "ben", now, why="new switch")
    arranging.open_window([], 10, "ben", now, begins_at=now + timedelta(hours=1))
    arranging.close_window(window, "cyd", now)
    arranging.remove_rule(night, "ben", now)
    arranging.remove_transport(ana, "ben", now)
    until = f"{window.until:%Y-%m-%d %H:%M} UTC"
    later = [f"{now + timedelta(minutes=ahead):%Y-%m-%d %H:%M} UTC" for ahead in (60, 70)]
    assert list(Entry.objects.filter(stream__name="fleet").order_by("pk").values_list("sentence", flat=True)) == [
        f"root added the transport ana, which leads to {ana.place}.",
        "root added the rule night: pages of any run and of the fleet, at all hours: at once ana.",
        "ben switched the rule night off.",
        f"ben opened maintenance of demo until {until}; nobody is told meanwhile: new switch.",
        f"ben opened maintenance of everything from {later[0]} until {later[1]}; nobody is told meanwhile.",
        f"cyd ended the maintenance of demo, which was to last until {until}.",
        "ben removed the rule night: pages of any run and of the fleet, at all hours: at once ana.",
        "ben removed the transport ana.",
    ]


def test_it_is_said_plainly_when_nobody_would_be_called(transport, rule):
    assert queries.readiness(after(0)) == "Nobody will be called: there is no transport yet."
    ana = transport()
    assert "no rule takes the pages of all runs" in queries.readiness(after(0))
    rule((0, ana), hours="Mon-Fri 08:00-20:00")
    assert queries.readiness(after(0)) == "Nobody would be called on Monday at 03:00 UTC: no rule holds then."
    rule((0, ana), name="always")
    assert queries.readiness(after(0)) == ""
