"""Exchanges with receivers that behave badly."""

import socket
import time

import pytest

from controlplane.domain.notify.retrying import Fate
from controlplane.notify import web
from controlplane.notify.web import Request, ask, retry_after_s
from tests.patience import within

from .conftest import NOW, OURS, drips, floods, stalls


def post(url, allowed=OURS):
    return ask(Request(url=url, body=b"{}", headers={}), NOW, allowed)


def test_what_the_receiver_said_is_the_proof(receiver):
    answer = post(f"{receiver.url}/hook?key=1")
    assert (answer.fate, answer.proof) == (Fate.DELIVERED, {"status": 200, "said": "noted"})
    assert receiver.got[0]["path"] == "/hook?key=1"


def test_a_wait_that_the_receiver_asks_for_is_heard(receiver):
    receiver.replies = [(429, {"Retry-After": "90"})]
    answer = post(receiver.url)
    assert (answer.fate, answer.retry_after_s) == (Fate.AGAIN, 90.0)


def test_a_wait_may_be_a_date():
    assert retry_after_s("Mon, 30 Nov 2026 03:01:00 GMT", NOW) == 60
    assert retry_after_s("Mon, 30 Nov 2020 03:01:00 GMT", NOW) == 0
    assert retry_after_s("soon", NOW) is None


def test_a_redirect_is_not_followed(receiver):
    receiver.replies = [(302, {"Location": f"{receiver.url}/elsewhere"})]
    answer = post(receiver.url)
    assert (answer.fate, answer.why) == (Fate.NEVER, "the receiver answered 302, and redirects are not followed")
    assert len(receiver.got) == 1


def test_a_receiver_that_stalls_is_left_in_time(receiver, monkeypatch):
    monkeypatch.setattr(web, "QUIET_S", 0.2)
    receiver.replies = [stalls(2)]
    answer = post(receiver.url)
    assert (answer.fate, answer.why) == (Fate.AGAIN, "127.0.0.1 did not answer in time")


def test_a_receiver_that_drips_is_cut_off_in_time(receiver, monkeypatch):
    monkeypatch.setattr(web, "LIMIT_S", 0.3)
    receiver.replies = [drips]
    began = time.monotonic()
    assert post(receiver.url).fate is Fate.AGAIN
    assert time.monotonic() - began < within(2)


def test_a_huge_answer_is_not_read_to_its_end(receiver):
    receiver.replies = [floods]
    answer = post(receiver.url)
    assert answer.fate is Fate.DELIVERED
    assert len(answer.proof["said"]) == web.SHOWN


def test_nobody_there_is_tried_again():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = post(f"http://127.0.0.1:{port}/")
    assert answer.fate is Fate.AGAIN
    assert "cannot be reached" in answer.why


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]"])
def test_nothing_leaves_for_a_private_address_that_was_not_allowed(receiver, host):
    answer = post(f"http://{host}:{receiver.server.server_port}/", allowed=[])
    assert answer.fate is Fate.NEVER
    assert "MIDDLEWATCH_NOTIFY_ALLOW" in answer.why
    assert receiver.got == []
