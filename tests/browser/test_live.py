"""An open page follows what happens, loses its socket, and is complete again."""

from datetime import UTC, datetime
from unittest import mock

from playwright.sync_api import expect

from controlplane.chronicle.actions import tell
from controlplane.incidents import actions
from controlplane.incidents.models import Incident
from controlplane.live import publish, store, topics
from controlplane.live.actions import touch
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run
from tests.web.world import build, person, report_steps

OF_THE_LOSS = ("WebSocket", "ERR_CONNECTION", "htmx:ws:error")
"""What the browser says of a server that is gone, and rightly so."""


def _tell(incident_id, sentence, kind="step"):
    now = datetime.now(UTC)
    tell(f"incident:{incident_id}", kind, sentence, at=now, now=now, actor_kind="runbook", actor="R-01")


def _numbers(page):
    return page.eval_on_selector_all("#chronicle-list > li", "all => all.map(one => Number(one.dataset.number))")


def _incident(visit, aside, **how):
    user, world = aside(person), aside(build)
    page = visit(user, f"/incidents/{world.incident.pk}/", **how)
    page.wait_for_selector("#freshness[data-state=live]")
    return page, world


def test_a_new_entry_appears_on_top_without_a_reload(visit, aside):
    page, world = _incident(visit, aside)
    aside(_tell, world.incident.pk, "Stopped what was left of attempt 2.")
    page.wait_for_selector("#chronicle-list > #entry-6")
    assert _numbers(page) == [6, 5, 4, 3, 2, 1]


def test_a_hostile_sentence_stays_text(visit, aside):
    page, world = _incident(visit, aside)
    aside(_tell, world.incident.pk, "<script>document.title='owned'</script><b>bold</b>")
    page.wait_for_selector("#chronicle-list > #entry-6")
    assert "<b>bold</b>" in page.inner_text("#entry-6")
    assert page.title().startswith("(1) Run llama-70b-v3")


def test_the_state_card_the_title_and_the_buttons_follow_the_incident(visit, aside):
    page, world = _incident(visit, aside)

    def resolve():
        actions.resolve_by_hand(Incident.objects.get(pk=world.incident.pk), "bo", datetime.now(UTC))

    aside(resolve)
    page.wait_for_selector("#state.tone-good")
    page.wait_for_selector("#acts button[disabled]:has-text('the incident is resolved')")
    page.wait_for_selector("#open-count[data-open='0']", state="attached")
    assert not page.title().startswith("(")
    assert page.get_attribute("#favicon", "href").endswith("lamp.svg")


def test_after_a_lost_socket_the_chronicle_is_complete_and_typed_text_and_focus_are_kept(visit, aside, server):
    page, world = _incident(visit, aside)
    page.click("#note summary")
    page.click("#note-text")
    page.keyboard.type("half a thou")
    server.kill()
    page.wait_for_selector("#freshness[data-state=connecting]")
    aside(_tell, world.incident.pk, "Told while nobody listened.")
    aside(_tell, world.incident.pk, "And once more.")
    server.start()
    page.wait_for_selector("#chronicle-list > #entry-7", timeout=40_000)
    page.wait_for_selector("#freshness[data-state=live]")
    aside(_tell, world.incident.pk, "Told after the reconnect.")
    page.wait_for_selector("#chronicle-list > #entry-8")
    page.keyboard.type("ght")
    assert _numbers(page) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert page.input_value("#note-text") == "half a thought"
    assert page.evaluate("document.activeElement.id") == "note-text"
    visit.troubles[:] = [line for line in visit.troubles if not any(word in line for word in OF_THE_LOSS)]


def test_an_entry_whose_message_was_lost_is_asked_for_though_a_later_one_has_come(visit, aside):
    page, world = _incident(visit, aside)
    topic = topics.parse(f"incident:{world.incident.pk}")
    aside(_tell, world.incident.pk, "Heard.")
    page.wait_for_selector("#chronicle-list > #entry-6")

    def lose():
        with mock.patch.object(publish, "send"):
            _tell(world.incident.pk, "Told, and its message lost.")
        assert store.last_sent(topic) == 7

    aside(lose)
    aside(_tell, world.incident.pk, "Heard again.")
    page.wait_for_selector("#chronicle-list > #entry-7")
    assert _numbers(page) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_catching_up_that_fails_is_tried_again_and_the_page_is_not_called_live_before(visit, aside, server):
    page, world = _incident(visit, aside)
    page.route("**/live/resync*", lambda route: route.fulfill(status=503))
    server.kill()
    page.wait_for_selector("#freshness[data-state=connecting]")
    aside(_tell, world.incident.pk, "Told while nobody listened.")
    server.start()
    with page.expect_response("**/live/resync*", timeout=40_000):
        pass
    aside(_tell, world.incident.pk, "Told by the socket.")
    page.wait_for_selector("#chronicle-list > #entry-7")
    assert page.get_attribute("#freshness", "data-state") == "connecting"
    page.unroute("**/live/resync*")
    page.wait_for_selector("#chronicle-list > #entry-6")
    page.wait_for_selector("#freshness[data-state=live]")
    assert _numbers(page) == [7, 6, 5, 4, 3, 2, 1]
    visit.troubles[:] = [line for line in visit.troubles if not any(word in line for word in (*OF_THE_LOSS, "503"))]


def test_a_reader_who_scrolled_down_is_told_by_a_pill_and_not_moved(visit, aside):
    page, world = _incident(visit, aside, width=360, height=500)
    page.evaluate("document.getElementById('entry-1').scrollIntoView()")
    page.wait_for_timeout(200)
    before = page.evaluate("document.getElementById('entry-1').getBoundingClientRect().top")
    for number in range(7):
        aside(_tell, world.incident.pk, f"Sentence {number}.")
    page.wait_for_selector("#chronicle-pill:has-text('7 new')")
    assert abs(page.evaluate("document.getElementById('entry-1').getBoundingClientRect().top") - before) < 1
    page.click("#chronicle-pill")
    assert _numbers(page)[0] == 12


def test_a_paused_chronicle_waits_and_goes_on(visit, aside):
    page, world = _incident(visit, aside)
    page.click("[data-act=pause]")
    aside(_tell, world.incident.pk, "Unseen for now.")
    page.wait_for_selector("#chronicle-pill:has-text('1 new')")
    assert _numbers(page)[0] == 5
    page.click("[data-act=pause]")
    page.wait_for_selector("#chronicle-list > #entry-6")


def test_filters_and_order_change_what_is_shown_not_what_is_there(visit, aside):
    page, _world = _incident(visit, aside)
    page.click(".chronicle-tools [data-filter=notes]")
    assert page.locator("#chronicle-list > li:visible").count() == 1
    page.click(".chronicle-tools [data-filter=all]")
    page.click("[data-act=order]")
    assert _numbers(page) == [1, 2, 3, 4, 5]


def test_a_note_is_added_without_a_reload_and_the_box_is_emptied(visit, aside):
    page, _world = _incident(visit, aside)
    page.click("#note summary")
    page.fill("#note-text", "I am *looking*.")
    page.click("#note-form button")
    page.wait_for_selector("#chronicle-list > #entry-6 em")
    expect(page.locator("#note-text")).to_have_value("")


def test_acknowledging_answers_in_place(visit, aside):
    page, _world = _incident(visit, aside)
    page.click("#acts button")
    page.wait_for_selector("#acts button[disabled]:has-text('Acknowledged')")
    page.wait_for_selector("#state:has-text('acknowledged by ana')")
    page.wait_for_selector("#chronicle-list > #entry-6")


def test_an_open_details_stays_open_while_the_state_changes(visit, aside):
    page, world = _incident(visit, aside)
    page.click("#side details summary")

    def hold():
        Run.objects.filter(pk=world.run.pk).update(held=True, held_by="bo")
        touch(f"incident:{world.incident.pk}")

    aside(hold)
    page.wait_for_selector("#state:has-text('held by bo')")
    assert page.get_attribute("#side details", "open") is not None


def test_the_charts_are_drawn_and_grow_by_numbers_alone(visit, aside):
    user = aside(person)
    aside(build)
    page = visit(user, "/runs/vision-7b/")
    page.wait_for_selector("#chart-rate canvas")
    page.wait_for_selector("#freshness[data-state=live]")

    def more():
        report_steps("vision-7b", datetime.now(UTC), first=500, count=3, every_s=0.2, tokens=1_000_000)
        touch("run:vision-7b", region="series")

    aside(more)
    page.wait_for_selector("[data-chart-words]:has-text('Last: 3,2')")


def test_silence_turns_the_page_stale_with_its_age_and_news_makes_it_live_again(visit, aside, server):
    page, _world = _incident(visit, aside, clock=True)
    server.kill()
    page.clock.fast_forward(47_000)
    page.wait_for_selector("#freshness[data-state=stale]:has-text('Stale')")
    assert int(page.inner_text("#freshness").split()[1]) >= 47
    server.start()
    page.clock.fast_forward(20_000)
    page.wait_for_selector("#freshness[data-state=live]", timeout=40_000)
    visit.troubles[:] = [line for line in visit.troubles if not any(word in line for word in OF_THE_LOSS)]


def test_the_page_of_an_execution_follows_it_and_stops_asking_at_its_end(visit, aside):
    user, world = aside(person), aside(build)
    page = visit(user, f"/executions/{world.execution.pk}/")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/executions/" in request.url else None)

    def end():
        Execution.objects.filter(pk=world.execution.pk).update(state="failed", outcome="attempt 3 did not start")

    aside(end)
    page.wait_for_selector("#execution .badge:has-text('Failed')", timeout=10_000)
    page.wait_for_selector("#headline")
    before = len(asked)
    page.wait_for_timeout(4500)
    assert len(asked) == before
