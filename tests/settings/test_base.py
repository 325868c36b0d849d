import json
import logging.config

import pytest
import structlog
from django.conf import settings
from django.utils.module_loading import import_string

from controlplane.celery import app
from controlplane.settings.base import database
from controlplane.settings.env import LogFormat
from controlplane.settings.logs import configure


def test_an_address_with_escaped_characters_is_taken_apart():
    found = database("postgresql://mid%40dle:p%2Fw@db:5433/watch?sslmode=require")
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"], found["NAME"]) == (
        "mid@dle", "p/w", "db", 5433, "watch",
    )  # fmt: skip
    assert found["OPTIONS"]["sslmode"] == "require"


def test_a_host_given_as_parameter_is_used_so_that_sockets_work():
    assert database("postgresql:///watch?host=/run/postgresql")["HOST"] == "/run/postgresql"


def test_the_rest_of_the_options_survives_in_the_pool():
    assert database("postgresql://h/x")["OPTIONS"]["pool"]["max_size"] > 1


@pytest.mark.parametrize(("given", "counted"), [("0", 0), ("20", 20), ("none", None)])
def test_an_address_says_when_statements_are_prepared_or_that_none_is(given, counted):
    assert database(f"postgresql://h/x?prepare_threshold={given}")["OPTIONS"]["prepare_threshold"] == counted
    assert database("postgresql://h/x")["OPTIONS"]["prepare_threshold"] == 5


def test_the_database_ends_a_transaction_that_stands_still_unless_the_address_says_otherwise():
    ten = "-c idle_in_transaction_session_timeout=10000"
    assert database("postgresql://h/x")["OPTIONS"]["options"] == ten
    own = database("postgresql://h/x?options=-c%20idle_in_transaction_session_timeout%3D0")
    assert own["OPTIONS"]["options"] == f"{ten} -c idle_in_transaction_session_timeout=0"


def test_tests_use_settings_of_their_own():
    assert settings.SETTINGS_MODULE == "controlplane.settings.test"


@pytest.mark.parametrize("entry", settings.CELERY_BEAT_SCHEDULE.values(), ids=settings.CELERY_BEAT_SCHEDULE)
def test_every_scheduled_task_exists_and_its_messages_expire(entry):
    assert callable(import_string(entry["task"]))
    assert entry["task"] in app.tasks or app.loader.import_default_modules() or entry["task"] in app.tasks
    assert 0 < entry["options"]["expires"] <= 10 * entry["schedule"].run_every.total_seconds()


def test_a_message_comes_back_only_long_after_the_longest_task():
    assert app.conf.broker_transport_options["visibility_timeout"] >= 300
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.worker_prefetch_multiplier == 1


def test_logs_are_json_lines_that_carry_the_message_and_its_facts(capsys):
    logging.config.dictConfig(configure("INFO", LogFormat.JSON))
    try:
        structlog.get_logger("controlplane.test").info("told", run="demo")
        logging.getLogger("controlplane.test").warning("also %s", "told")
        first, second = map(json.loads, capsys.readouterr().err.splitlines())
    finally:
        logging.config.dictConfig(settings.LOGGING)
    assert (first["event"], first["run"], first["level"]) == ("told", "demo", "info")
    assert (second["event"], second["level"], second["logger"]) == ("also told", "warning", "controlplane.test")
