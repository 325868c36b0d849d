"""The kill switch: what it stops, what it leaves alone, and what becomes of the trouble found meanwhile."""

from io import StringIO
from threading import Event, Thread
from time import perf_counter

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.fleet.models import Command
from controlplane.incidents import actions as incidents
from controlplane.runbooks import actions, breaker, fleet_answers, switches
from controlplane.runs import automation
from controlplane.runs.book import Book
from controlplane.runs.times import seconds
from tests.flows.conftest import training
from tests.flows.world import Cluster


@pytest.fixture
def cluster(db):
    return training(steps=6, size=2, spares=1)


def proposed(cluster):
    return cluster.execution() is not None and cluster.execution().state == "proposed"


@pytest.mark.parametrize("everywhere", [True, False])
def test_switched_off_in_the_middle_nothing_new_begins_and_what_waits_is_called_back(cluster, everywhere):
    about = None if everywhere else cluster.run
    cluster.mute_kinds.add("attempt.stop")
    cluster.kill_rank(1)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    Command.objects.filter(kind="attempt.stop").update(state="pending", leased_until=None)
    switches.off(about, "ana", "storage looks odd", cluster.now)
    assert cluster.sent("attempt.stop").get().state == "expired"
    sent = Command.objects.count()
    cluster.mute_kinds.clear()
    cluster.tick(5)
    assert (cluster.execution().held_by, Command.objects.count(), cluster.stops) == ("kill switch", sent, [])
    assert any("ana switched automation off" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))
    switches.on(about, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.run.executions.count() == 1


def test_training_goes_on_while_automation_is_off(cluster):
    switches.off(None, "ana", "", cluster.now)
    before = cluster.step
    cluster.tick(3)
    assert cluster.step == before + 3
    assert (cluster.fresh().state, cluster.execution()) == ("running", None)


def test_what_was_found_meanwhile_is_answered_when_it_is_to_be_processed(cluster):
    switches.off(cluster.run, "ana", "", cluster.now)
    cluster.kill_rank(1)
    cluster.until(lambda: proposed(cluster))
    assert (cluster.execution().held_by, cluster.stops) == ("kill switch", [])
    with pytest.raises(Refused, match="ana switched automation off"):
        actions.approve(cluster.execution(), "ben", cluster.now)
    switches.on(cluster.run, "ben", cluster.now, backlog="process")
    cluster.until(lambda: len(cluster.launches) == 2)


def test_what_is_skipped_is_left_to_people_and_the_next_attempt_is_answered_again(cluster):
    switches.off(None, "ana", "a rehearsal", cluster.now)
    cluster.kill_rank(1)
    cluster.until(lambda: proposed(cluster))
    switches.on(None, "ben", cluster.now, backlog="skip")
    cluster.tick(5)
    assert (cluster.stops, cluster.execution().state) == ([], "stopped")
    assert any("ben left this to people" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))
    assert any("left alone (1 incident)" in line for line in cluster.told("fleet"))
    cluster.stop("head", {"attempt": 1})
    cluster.tick(2)
    actions.launch(cluster.run, None, "ben", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2 and cluster.step > 0)
    cluster.tick(3)
    cluster.kill_rank(0, signal=11)
    cluster.until(lambda: len(cluster.launches) == 3, limit=60)


def condemn(cluster, node):
    at = seconds(cluster.now)
    line = Evidence(at=at, entity=f"node:{node}", weight=6.0, text=f"GPU 0 of {node} fell off the bus", kind="xid 79")
    finding = Finding(
        key=f"fleet/gpu/{node}", detector="D-06", klass="gpu_fault", stage=Stage.CONFIRMED, entity=f"gpu:{node}",
        began=at, at=at, sentence=f"GPU 0 of {node} fell off the bus", evidence=(line,),
        facts={"action": "quarantine_now"},
    )  # fmt: skip
    book = Book(cluster.now)
    fleet_answers.answer(incidents.record(None, [finding], cluster.now), cluster.now, book=book)
    book.write()


def test_a_condemned_idle_node_waits_until_automation_may_act_again(cluster):
    switches.off(None, "ana", "", cluster.now)
    condemn(cluster, "n03")
    assert cluster.node("n03").state == "spare"
    switches.on(None, "ana", cluster.now)
    assert cluster.node("n03").state == "quarantined"


def test_behind_an_open_breaker_a_condemned_idle_node_is_only_proposed(cluster):
    automation.open_breaker(None, "three runs failed", cluster.now)
    condemn(cluster, "n03")
    assert cluster.node("n03").state == "spare"
    assert any("n03 was not quarantined: the breaker of the fleet is open" in line for line in cluster.told())
    switches.reset(None, "ana", cluster.now)
    assert cluster.node("n03").state == "quarantined"


def test_idle_nodes_taken_out_open_the_breaker_of_the_fleet_too(cluster, monkeypatch):
    monkeypatch.setattr(breaker, "nodes_out", lambda *_: [cluster.now] * 100)
    condemn(cluster, "n03")
    assert (switches.state(None).open, cluster.node("n03").state) == (True, "spare")
    assert sum("The breaker opened" in line for line in cluster.told("fleet")) == 1


def test_a_switch_is_moved_once_and_says_who_and_why(cluster):
    switches.off(None, "ana", "odd storage", cluster.now)
    with pytest.raises(Conflict):
        switches.off(None, "ben", "", cluster.now)
    with pytest.raises(Invalid, match="backlog"):
        switches.on(None, "ben", cluster.now, backlog="forget")
    found = switches.state(cluster.run)
    assert (found.off, found.everywhere, found.by, found.why) == (True, True, "ana", "odd storage")
    assert found.words == "ana switched automation off everywhere: odd storage."
    switches.on(None, "ben", cluster.now)
    with pytest.raises(Conflict):
        switches.on(None, "ben", cluster.now)
    assert switches.state(None).words == "automation may act."


def test_a_reason_has_a_longest_length(cluster):
    with pytest.raises(Invalid, match="why"):
        switches.off(None, "ana", "x" * (switches.MAX_WHY + 1), cluster.now)


def test_the_switch_can_be_moved_from_a_shell(cluster):
    said = StringIO()
    call_command("automation", "off", "--run", "demo", "--why", "drill", stdout=said)
    assert "switched automation off for this run: drill." in said.getvalue()
    call_command("automation", "on", "--run", "demo", "--backlog", "skip", stdout=said)
    call_command("automation", "state", stdout=said)
    assert "Nodes taken out: 4 of 4 nodes left" in said.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_switch_waits_for_an_act_that_is_being_written_and_the_next_act_sees_it():
    writing, written = Event(), Event()

    def act():
        with transaction.atomic():
            automation.share(None)
            writing.set()
            written.wait(10)
        connection.close()

    acting = Thread(target=act)
    acting.start()
    assert writing.wait(10)
    with pytest.raises(OperationalError):
        _impatient()
    written.set()
    acting.join()
    assert automation.turn_off(None, "ana", "", _now())
    with transaction.atomic():
        assert automation.share(None).why_off == "ana switched automation off everywhere"


@pytest.mark.django_db(transaction=True)
def test_acts_that_follow_each_other_closely_do_not_keep_the_switch_waiting():
    over, took = Event(), []
    acting = [Thread(target=_act_until, args=(over,)) for _ in range(3)]
    for thread in acting:
        thread.start()
    for _ in range(5):
        began = perf_counter()
        assert automation.turn_off(None, "ana", "", _now())
        took.append(perf_counter() - began)
        automation.turn_on(None, _now(), process=True)
    over.set()
    for thread in acting:
        thread.join()
    assert max(took) < 1


def _act_until(over):
    while not over.is_set():
        with transaction.atomic():
            automation.share(None)
            over.wait(0.005)
    connection.close()


def _impatient():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '50ms'")
        automation.turn_off(None, "ana", "", _now())


def _now():
    return Cluster().now
