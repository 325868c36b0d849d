import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.settings.env import (
    LEAST_SECRET_LENGTH,
    MOST_RETENTION_DAYS,
    Environment,
    SettingsError,
    load,
    missing_to_serve,
    require_fit_to_serve,
)

ROOT = Path(__file__).resolve().parent.parent.parent
SECRET = "s" * LEAST_SECRET_LENGTH


def test_all_errors_are_reported_at_once_with_the_names_of_the_variables(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "sqlite:///x")
    monkeypatch.setenv("REDIS_URL", "http://cache")
    monkeypatch.setenv("MIDDLEWATCH_BASE_URL", "watch.example.org")
    monkeypatch.setenv("MIDDLEWATCH_EVENT_RETENTION_DAYS", "soon")
    with pytest.raises(SettingsError) as caught:
        load()
    text = str(caught.value)
    assert all(
        f"  {name}: " in text
        for name in ("DATABASE_URL", "REDIS_URL", "MIDDLEWATCH_BASE_URL", "MIDDLEWATCH_EVENT_RETENTION_DAYS")
    )


def test_an_error_does_not_repeat_the_value_since_it_may_hold_a_password(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "mysql://root:hunter2@db/x")
    with pytest.raises(SettingsError) as caught:
        load()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MIDDLEWATCH_SECRET_KEY", "s" * (LEAST_SECRET_LENGTH - 1)),
        ("MIDDLEWATCH_EVENT_RETENTION_DAYS", "0"),
        ("MIDDLEWATCH_EVENT_RETENTION_DAYS", str(MOST_RETENTION_DAYS + 1)),
        ("MIDDLEWATCH_BASE_URL", "https://watch.example.org/path"),
        ("MIDDLEWATCH_BASE_URL", "ftp://watch.example.org"),
        ("MIDDLEWATCH_LOG_LEVEL", "LOUD"),
        ("MIDDLEWATCH_LOG_FORMAT", "xml"),
        ("MIDDLEWATCH_DEBUG", "perhaps"),
        ("MIDDLEWATCH_NOTIFY_ALLOW", "10.0.0.0/8; mail"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=variable):
        load()


def test_limits_themselves_are_allowed(monkeypatch):
    monkeypatch.setenv("MIDDLEWATCH_SECRET_KEY", SECRET)
    monkeypatch.setenv("MIDDLEWATCH_EVENT_RETENTION_DAYS", str(MOST_RETENTION_DAYS))
    assert load().middlewatch_event_retention_days == MOST_RETENTION_DAYS


def test_an_empty_variable_means_the_default(monkeypatch):
    monkeypatch.setenv("MIDDLEWATCH_EVENT_RETENTION_DAYS", "")
    assert load().middlewatch_event_retention_days == 30


def test_a_trailing_slash_of_the_address_is_dropped(monkeypatch):
    monkeypatch.setenv("MIDDLEWATCH_BASE_URL", "https://watch.example.org/")
    assert load().middlewatch_base_url == "https://watch.example.org"


def test_serving_without_a_secret_key_is_refused():
    env = load(database_url="postgresql://h/x", redis_url="redis://h", middlewatch_secret_key="")
    with pytest.raises(SettingsError, match="MIDDLEWATCH_SECRET_KEY: is not set"):
        require_fit_to_serve(env)


def test_everything_that_serving_lacks_is_named_at_once():
    env = load(database_url="", redis_url="", middlewatch_secret_key="")
    assert set(missing_to_serve(env)) == {"DATABASE_URL", "REDIS_URL", "MIDDLEWATCH_SECRET_KEY"}


def test_development_may_serve_without_a_secret_key():
    env = load(database_url="postgresql://h/x", redis_url="redis://h", middlewatch_debug=True)
    require_fit_to_serve(env)


@pytest.mark.parametrize("command", [["celery", "-A", "controlplane.beat", "beat", "--pidfile", ""],
                                     ["celery", "-A", "controlplane.celery", "worker", "--pool", "threads"],
                                     ["uvicorn", "controlplane.asgi:application", "--port", "0"]])  # fmt: skip
def test_a_serving_process_ends_with_a_readable_message_and_no_traceback(command):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env={"PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "MIDDLEWATCH_SECRET_KEY: is not set" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_variable_is_documented_with_its_default_and_meaning():
    page = (ROOT / "docs/settings.md").read_text()
    for name, (default, description) in Environment.variables().items():
        shown = f"`{default}`" if str(default) else "empty"
        assert f"| `{name}` | {shown} | {description} |" in page


def test_the_page_documents_no_variable_that_does_not_exist():
    rows = [line for line in (ROOT / "docs/settings.md").read_text().splitlines() if line.startswith("| `")]
    named = {line.split("`")[1] for line in rows if line.split("`")[1].isupper()}
    assert named == set(Environment.variables())
