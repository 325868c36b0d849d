"""Somebody who has signed in asks while PostgreSQL is away: not even the session can be read."""

from threading import Thread

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection, connections
from django.http import HttpRequest
from django.test import Client
from django.utils.functional import SimpleLazyObject

from controlplane.access.models import User
from controlplane.web import errors

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitor(monkeypatch):
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="ana", role="operator"))

    def load(_store):
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(SessionStore, "load", load)
    return client


@pytest.mark.parametrize("address", ["/", "/incidents/", "/runs/demo"])
def test_a_page_says_that_the_database_is_away_and_tries_again(visitor, address):
    answer = visitor.get(address)
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "The database does not answer" in answer.content.decode()


def test_a_program_is_told_in_json(visitor):
    answer = visitor.get("/api/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


def test_the_process_still_says_that_it_lives(visitor):
    assert visitor.get("/healthz").status_code == 200


def test_another_failure_is_still_a_failure(monkeypatch):
    def load(_store):
        raise ZeroDivisionError

    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="ana", role="operator"))
    monkeypatch.setattr(SessionStore, "load", load)
    assert client.get("/").status_code == 500


@pytest.mark.django_db(transaction=True)
def test_a_page_about_an_error_keeps_no_connection_of_the_thread_that_it_was_made_in(monkeypatch):
    """Django makes such pages in threads that end no request, so a connection kept would never be renewed."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)  # as it is outside of tests
    kept = []

    def somebody():
        User.objects.count()
        return AnonymousUser()

    def make():
        request = HttpRequest()
        request.META |= {"SERVER_NAME": "x", "SERVER_PORT": "80"}
        request.user = SimpleLazyObject(somebody)
        assert errors.not_found(request).status_code == 404
        kept.append(connection.connection)

    thread = Thread(target=make)
    thread.start()
    thread.join()
    assert kept == [None]
