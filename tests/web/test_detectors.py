"""The settings of the detectors: seen, tried on the past, saved, and told."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.chronicle.models import Entry
from controlplane.domain.detection.detectors import DETECTORS
from controlplane.events import log
from controlplane.incidents.models import Observation
from controlplane.runs.models import Attempt, Run
from tests.web.world import person

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
PATH = "/runs/alpha/detectors/"


@pytest.fixture
def run():
    made = Run.objects.create(
        name="alpha", launcher="head", nodes_wanted=1, created_at=NOW - timedelta(days=1), policy={"hang_k": 4}
    )
    Attempt.objects.create(run=made, number=1, nodes=["n01"], started_at=NOW - timedelta(hours=1), state="running")
    return made


@pytest.fixture
def page(client, run, monkeypatch):
    monkeypatch.setattr("controlplane.web.views.detectors.clock", lambda: NOW)
    client.force_login(person())
    return client


@pytest.fixture
def a_pause(run):
    """Forty steps of 20 s, a pause of 45 s, and six more."""
    begin, seqs = NOW - timedelta(seconds=960), iter(range(1, 1000))
    ends = [20 * number for number in range(1, 41)] + [845 + 20 * number for number in range(6)]
    say(begin, "head", make_event("attempt.started", at_ms=ms(begin), seq=1, run="alpha", attempt=1, nodes=["n01"],
                                  world_size=1))  # fmt: skip
    steps = {end: number for number, end in enumerate(ends, 1)}
    for second in range(5, 960, 5):
        at = begin + timedelta(seconds=second)
        events = [make_event("node.heartbeat", at_ms=ms(at), seq=next(seqs))]
        if second in steps:
            step = {"step": steps[second], "duration_ms": 20_000}
            events.append(make_event("rank.step", at_ms=ms(at), seq=next(seqs), run="alpha", attempt=1, rank=0, **step))
        say(at, "n01", *events)


def ms(moment):
    return round(moment.timestamp() * 1000)


def say(at, node, *events):
    batch = Batch(agent=AgentIdentity(node=node, incarnation="one"), sent_at_ms=ms(at), events=list(events))
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [decode_batch(encode_batch(batch))], at)


def test_every_detector_stands_with_its_thresholds_their_defaults_units_and_sources(page):
    shown = page.get(PATH).content.decode()
    for detector in DETECTORS:
        assert detector.words in shown
    assert 'name="hang_floor_s"' in shown
    assert "default 60 · 0.5 to 86400 · docs/thresholds.md, Hang" in shown


@pytest.mark.parametrize(
    ("median_s", "samples", "said"),
    [(None, 0, "unknown after 0 steps"), (None, 1, "unknown after 1 step"), (0.3, 128, "0.3 s (of 128 steps)")],
)
def test_what_was_learned_says_on_how_many_steps_it_rests(page, monkeypatch, median_s, samples, said):
    seen = SimpleNamespace(median_step_s=median_s, samples=samples, k=3.0, deadline_s=None, waits_for="")
    monkeypatch.setattr("controlplane.web.read.detectors.runs.view", lambda _run: seen)
    assert f"<dd>{said}</dd>" in page.get(PATH).content.decode()


def test_what_was_overridden_stands_in_its_field_and_the_rest_is_empty(page):
    shown = page.get(PATH).content.decode()
    assert 'name="hang_k" value="4"' in shown
    for name, words in (("Progress stall", "1 changed"), ("Death of a rank", "")):
        head = shown[: shown.index(f"<h2>{name} ")].rpartition("<details")[2]
        assert ("open" in head) == bool(words)
        assert words in shown[shown.index(f"<h2>{name} ") :].partition("</summary>")[0]
    assert 'name="hang_cap_s" value=""' in shown


def test_a_preview_tells_what_the_change_would_have_found_and_saves_nothing(page, run, a_pause):
    shown = page.post(PATH, {"do": "preview", "hang_k": "1.5", "hang_floor_s": "30"}).content.decode()
    assert "As it is: 0 confirmed findings and 0 suspicions that cleared. As changed: 0 and 1." in shown
    assert "Found besides" in shown
    assert "not saved yet" in shown
    run.refresh_from_db()
    assert run.policy == {"hang_k": 4}


def test_a_preview_without_effect_says_so(page, a_pause):
    shown = page.post(PATH, {"do": "preview", "hang_k": "4"}).content.decode()
    assert "Nothing would have been found differently." in shown


def test_saving_replaces_the_settings_and_the_chronicle_names_what_changed(page, run):
    answer = page.post(PATH, {"do": "save", "hang_k": "3.5", "mode.D-01": "observe", "rules": "xid-79 propose"})
    assert answer.status_code == 302
    run.refresh_from_db()
    assert run.policy == {"hang_k": 3.5, "modes": {"D-01": "observe", "xid-79": "propose"}}
    told = Entry.objects.filter(stream__name="run:alpha").latest("number").sentence
    assert "ana changed the run's settings: hang_k from 4 to 3.5" in told
    assert "mode of D-01 from default to observe" in told


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"hang_k": "fast"}, "hang_k: must be a number"),
        ({"hang_k": "900"}, "hang_k: must be between 1.5 and 20"),
        ({"mode.D-01": "maybe"}, "modes.D-01: must be one of off, observe, propose, act"),
        ({"delta_s": "60", "hang_floor_s": "30"}, "delta_s: must be below hang_floor_s"),
    ],
)
def test_a_wrong_value_names_its_field_and_keeps_what_was_typed(page, run, form, words):
    answer = page.post(PATH, {"do": "save", "save_floor_s": "77", **form})
    assert answer.status_code == 400
    shown = answer.content.decode()
    assert words.lower() in shown.lower()
    assert 'name="save_floor_s" value="77"' in shown
    run.refresh_from_db()
    assert run.policy == {"hang_k": 4}


def test_a_viewer_may_preview_and_not_save(client, run):
    client.force_login(person("vera", "viewer"))
    assert "saving needs the role operator" in client.get(PATH).content.decode()
    assert client.post(PATH, {"do": "save", "hang_k": "5"}).status_code == 403
    run.refresh_from_db()
    assert run.policy == {"hang_k": 4}


def test_what_rules_only_observed_is_listed(page, run):
    Observation.objects.create(
        run=run, rule="D-04", key="k", klass="fail_slow", stage="confirmed", entity="node:n01", at=NOW,
        sentence="run alpha takes 6 % longer per step",
    )  # fmt: skip
    assert "Run alpha takes 6 % longer per step" in page.get(PATH).content.decode()
