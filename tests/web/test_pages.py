"""Every page shows its facts to whoever may see them, and only those."""

import math

import pytest
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.events import log
from controlplane.fleet import hot
from controlplane.incidents.models import Incident
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution
from controlplane.runs.book import Book
from controlplane.runs.models import Run
from tests.web.world import build, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return build()


@pytest.fixture
def page(client, world):
    client.force_login(person())

    def get(path, status=200):
        answer = client.get(path)
        assert answer.status_code == status, answer.content[:2000]
        return answer.content.decode()

    return get


def test_the_overview_tells_what_recovers_by_itself_from_what_needs_a_person(page, world):
    html = page("/")
    assert "1 of 2 runs is recovering without you" in html
    assert "Recovers by itself" in html
    assert "Needs you" not in html
    Execution.objects.filter(pk=world.execution.pk).update(state="failed")
    assert "1 of 2 runs needs you" in page("/")
    for path in ("/", "/incidents/", f"/incidents/{world.incident.pk}/", f"/runs/{world.run.name}/"):
        assert page(path).count("Needs you") == 1, path


def test_the_overview_shows_each_node_with_glyph_and_letter(page):
    html = page("/")
    assert 'id="node-n07"' in html
    assert "Quarantined" in html


def test_a_node_that_contradicting_verdicts_froze_says_so_everywhere_and_what_frees_it(page, world):
    said = (
        "Node n03 was made spare at 03:15 UTC and would be draining by another verdict: automation leaves it as it is."
    )
    assert "frozen" not in page("/")
    quarantine.note("n03", said, actor="verdicts", key="conflict:1", now=world.now, book=(book := Book(world.now)))
    book.write()
    for path in ("/", "/nodes/", "/nodes/n03/"):
        assert page(path).count("frozen") == 1, path
    assert f"{said} Put it into quarantine, and release it if you trust it" in page("/nodes/n03/")
    quarantine.quarantine("n03", "worn out", [], actor_kind="person", actor="ana", now=world.now, key=None)
    assert "frozen" not in page("/") + page("/nodes/n03/")


def test_the_page_of_a_launcher_calls_it_one_whatever_its_state_in_the_ledger(page):
    html = page("/nodes/head/")
    assert "launches runs and takes no ranks" in html
    assert "Launcher</span>" in html
    assert "Healthy" not in html


def test_a_run_of_which_nobody_is_heard_is_shown_as_training_on_no_page(page, world):
    Run.objects.filter(pk=world.run.pk).update(state="running")
    Incident.objects.filter(pk=world.incident.pk).update(klass="blind", severity="warning")
    for path in ("/", f"/runs/{world.run.name}/"):
        assert "Not seen</span>" in page(path), path
    assert f"Run {world.run.name} was training when it was last heard" in page(f"/runs/{world.run.name}/")


def test_the_bar_of_a_suspect_is_full_only_when_there_is_enough_to_act_on(page, world):
    for score, width in ((3.0, 75), (4.0, 100)):
        blamed = [{"entity": "node:n04", "score": score, "margin": 3.0}]
        Incident.objects.filter(pk=world.incident.pk).update(blamed=blamed)
        suspects = page(f"/incidents/{world.incident.pk}/").split("Suspects</h2>")[1].split("</section>")[0]
        assert f'<rect class="bar" width="{width}" height="8"/>' in suspects


def test_what_arrived_is_shown_though_nobody_has_judged_it_yet(page, world, monkeypatch):
    monkeypatch.setattr(hot, "node_seen", lambda _: {"n04": world.now})
    monkeypatch.setattr(hot, "run_step", lambda _: hot.HotStep(2, 81_475, world.now))
    assert "silent" not in page("/")
    assert "was last heard" not in page("/nodes/n04/")
    assert "step 81\u202f475, " in page("/runs/llama-70b-v3/")


def test_an_empty_fleet_says_what_will_appear_and_how(client, db):
    client.force_login(person())
    html = client.get("/").content.decode()
    assert "No agent has reported yet" in html
    assert "middlewatch-agent enrol" in html


def test_the_incident_page_says_what_is_broken_what_is_done_and_what_follows(page, world):
    html = page(f"/incidents/{world.incident.pk}/")
    assert "Run llama-70b-v3 is stopped" in html
    assert "Stopping what is left of attempt 2" in html
    assert f"Step 3 of {len(registry.of(world.execution).steps)}" in html
    assert "Choose the newest complete checkpoint" in html
    assert "32 GPUs idle" in html


def test_the_page_of_an_execution_shows_each_step_and_what_may_be_done(page, world):
    html = page(f"/executions/{world.execution.pk}/")
    assert "Stopping what is left of attempt 2" in html
    assert f'href="/incidents/{world.incident.pk}/"' in html
    assert f'action="/executions/{world.execution.pk}/pause/"' in html
    assert html.count('aria-current="step"') == 1


def test_the_page_of_an_ended_execution_offers_nothing_and_asks_for_nothing_more(page, world):
    Execution.objects.filter(pk=world.execution.pk).update(state="failed", outcome="attempt 3 did not start")
    html = page(f"/executions/{world.execution.pk}/")
    assert "Attempt 3 did not start" in html
    assert "/pause/" not in html
    assert "every 2s" not in html


def test_an_act_on_the_page_of_an_execution_leads_back_to_it(client, page, world):
    path = f"/executions/{world.execution.pk}/"
    answer = client.post(f"{path}pause/", headers={"Referer": f"http://testserver{path}"})
    assert answer.headers["location"] == path


def test_the_chronicle_stands_newest_first(page, world):
    html = page(f"/incidents/{world.incident.pk}/")
    numbers = [html.index(f'id="entry-{number}"') for number in (5, 4, 3, 2, 1)]
    assert numbers == sorted(numbers)


def test_a_late_entry_says_how_late_it_came(page, world):
    assert "received 40 s late" in page(f"/incidents/{world.incident.pk}/")


def test_a_note_is_shown_as_markdown_without_html(client, page, world):
    client.post(f"/incidents/{world.incident.pk}/note/", {"text": "**bold** <img src=x onerror=alert(1)>"})
    html = page(f"/incidents/{world.incident.pk}/")
    assert "<strong>bold</strong>" in html
    assert "<img src=x" not in html


def test_the_run_page_names_the_restore_point_and_what_it_would_lose(page):
    html = page("/runs/llama-70b-v3/")
    assert "81\u202f400" in html
    assert "losing 70 steps" in html
    assert "3 of 32 files are missing" in html


@pytest.mark.parametrize(
    "path",
    [
        "/runs/",
        "/incidents/",
        "/incidents/?state=open",
        "/nodes/",
        "/nodes/n07/",
        "/nodes/head/",
        "/quarantine/",
        "/styleguide/",
    ],
)
def test_the_other_pages_open(page, path):
    assert "<h1" in page(path)


def test_what_a_node_could_not_measure_does_not_break_its_page(page, world):
    health = make_event("node.health", at_ms=1, host={"cpu_pct": math.inf, "load1": math.nan})
    batch = decode_batch(
        encode_batch(Batch(agent=AgentIdentity(node="n07", incarnation="life"), sent_at_ms=1, events=[health]))
    )
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [batch], world.now)
    assert "nan" not in page("/nodes/n07/")


def test_the_quarantine_list_names_reason_and_evidence(page):
    html = page("/quarantine/")
    assert "ECC errors on GPU 3" in html
    assert "12 uncorrected ECC errors in 10 min" in html


def test_the_series_is_json(page):
    assert '"marks"' in page("/runs/llama-70b-v3/series.json")


@pytest.mark.parametrize("path", ["/runs/nobody/", "/incidents/999999/", "/nodes/nobody/", "/nowhere/"])
def test_what_is_not_there_answers_404_and_leads_on(page, path):
    assert 'href="/incidents/"' in page(path, 404)


def test_what_is_not_there_is_named_in_a_whole_sentence(page):
    assert "There is no incident 9999." in page("/incidents/9999/", 404)


def test_a_viewer_sees_the_buttons_with_the_role_they_need(client, world):
    client.force_login(person("vera", "viewer"))
    html = client.get(f"/incidents/{world.incident.pk}/").content.decode()
    assert html.count("needs the role responder") >= 2
    assert "disabled" in html


def test_the_title_carries_the_count_of_open_incidents(page):
    assert "<title>(1) Fleet" in page("/")


def test_strangers_are_sent_to_the_sign_in_page(client, world):
    answer = client.get("/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/")


def test_the_content_security_policy_allows_nothing_inline(client, page):
    policy = client.get("/")["Content-Security-Policy"]
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy


def test_no_page_holds_inline_script_or_style(page, world):
    for path in ("/", f"/incidents/{world.incident.pk}/", "/runs/llama-70b-v3/", "/styleguide/"):
        html = page(path)
        assert "style=" not in html
        assert "<script>" not in html


def test_the_markdown_export_tells_the_same_story(page, world):
    text = page(f"/incidents/{world.incident.pk}/chronicle.md")
    assert text.startswith(f"# Incident {world.incident.pk}: Rank 412 hung on n04")
    assert "Collected stacks" in text


def test_the_ranks_stand_slowest_first(page):
    html = page("/runs/llama-70b-v3/")
    assert html.index('id="rank-3"') < html.index('id="rank-0"')
    assert "4400 ms" in html


def test_the_overview_draws_step_time_and_tells_throughput(page):
    html = page("/")
    assert "<polyline" in html
    assert "tokens/s" in html


def test_the_series_gives_numbers_and_marks(client, page, world):
    answer = client.get("/runs/llama-70b-v3/series.json").json()
    assert len(answer["at"]) == len(answer["rate"]) == 120
    assert answer["unit"] == "tokens/s"
    assert {mark["kind"] for mark in answer["marks"]} >= {"checkpoint"}


def test_a_bad_since_names_the_field(client, page, world):
    answer = client.get("/runs/llama-70b-v3/series.json?since=yesterday")
    assert (answer.status_code, answer.json()["field"]) == (400, "since")
