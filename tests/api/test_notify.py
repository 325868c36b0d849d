import pytest

from controlplane.notify import arranging
from controlplane.runs.models import Run

HOOK = {"url": "https://hooks.example.org/secret-path"}


@pytest.fixture
def ana(api):
    answer = api.post("notify/transports", name="ana", kind="webhook", settings=HOOK)
    assert answer.status_code == 201
    return answer.json()


def test_secrets_go_in_and_never_come_out(api, ana):
    assert ana["place"] == "https://hooks.example.org/…"
    assert "secret-path" not in api.get("notify/transports").text


def test_a_rule_is_told_back_in_words(api, ana):
    made = api.post(
        "notify/rules", name="nights", runs=["demo"], hours="Mon-Fri 22:00-06:00", time_zone="Europe/Berlin",
        steps=[{"transports": [ana["id"]]}, {"after_s": 600, "transports": [ana["id"]]}],
    )  # fmt: skip
    assert made.status_code == 201
    assert made.json()["words"] == (
        "pages that are critical of demo, Mon-Fri 22:00-06:00 (Europe/Berlin): at once ana; "
        "10 min later, unless acknowledged, ana"
    )
    assert api.get("notify/ready").json()["why_not"].startswith("Nobody will be called for every critical incident")
    path = f"notify/rules/{made.json()['id']}"
    assert api.post(f"notify/transports/{ana['id']}/remove").status_code == 409
    assert api.post(f"{path}/switch", enabled=False).json()["enabled"] is False
    assert api.post(f"{path}/remove").status_code == 204
    assert api.post(f"notify/transports/{ana['id']}/remove").status_code == 204


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("transports", {"name": "x" * 61, "kind": "webhook", "settings": HOOK}, "name"),
        ("transports", {"name": "", "kind": "webhook", "settings": HOOK}, "name"),
        ("transports", {"name": "a", "kind": "pigeon"}, "kind"),
        ("transports", {"name": "a", "kind": "webhook", "settings": HOOK, "person": "nobody"}, "person"),
        ("rules", {"name": "a", "steps": []}, "steps"),
        ("rules", {"name": "a", "steps": [{"transports": [1]}] * 6}, "steps"),
        ("rules", {"name": "a", "steps": [{"transports": [4711]}]}, "transports"),
        ("rules", {"name": "a", "steps": [{"transports": [1]}], "severity": "dire"}, "severity"),
        ("rules", {"name": "a", "steps": [{"transports": [1]}], "hours": "at night"}, "hours"),
        ("rules", {"name": "a", "steps": [{"transports": [1]}], "time_zone": "Mars/Base"}, "time_zone"),
        ("rules", {"name": "a", "steps": [{"transports": [1]}], "remind_s": 10**6}, "remind_s"),
        ("windows", {"minutes": 10081}, "minutes"),
        ("windows", {"minutes": 5, "begins_at": "2020-01-01T00:00:00Z"}, "begins_at"),
        ("windows", {"minutes": 5, "runs": [f"r{n}" for n in range(51)]}, "runs"),
        ("silences", {"minutes": 0}, "minutes"),
        ("signs", {"name": "w", "url": "https://a.example", "every_s": 4}, "every_s"),
        ("signs", {"name": "w", "url": "file:///etc/passwd"}, "url"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_field(api, path, body, field):
    answer = api.post(f"notify/{path}", **body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_a_name_is_given_once_and_there_are_only_so_many(api, ana, monkeypatch):
    again = api.post("notify/transports", name="ana", kind="webhook", settings=HOOK)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    monkeypatch.setattr(arranging, "MAX_TRANSPORTS", 1)
    more = api.post("notify/transports", name="ben", kind="webhook", settings=HOOK)
    assert (more.status_code, more.json()["code"]) == (409, "refused")


def test_a_test_shows_what_became_of_it(api):
    made = api.post("notify/transports", name="in", kind="webhook", settings={"url": "http://127.0.0.1:9/"}).json()
    tested = api.post(f"notify/transports/{made['id']}/test").json()
    assert tested["state"] == "given_up"
    assert "MIDDLEWATCH_NOTIFY_ALLOW" in tested["why"]
    assert [one["kind"] for one in api.get("notify/messages", state="given_up").json()["items"]] == ["test"]


def test_windows_silences_and_signs_of_life_are_made_and_ended(api, run):
    window = api.post("notify/windows", runs=["demo"], minutes=30, why="switches").json()
    assert api.get("notify/windows").json() == [window]
    assert api.post(f"notify/windows/{window['id']}/close").status_code == 200
    assert api.post(f"notify/windows/{window['id']}/close").status_code == 409
    assert api.post("notify/silences", run=Run.objects.get().name, minutes=5).json()["by"] == "the-admin"
    sign = api.post("notify/signs", name="world", url="https://ping.example.org/id").json()
    assert [one["name"] for one in api.get("notify/signs").json()] == ["world"]
    assert api.post(f"notify/signs/{sign['id']}/remove").status_code == 204
