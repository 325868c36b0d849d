"""At least once, with one key, whoever dies in between."""

import json
import re

import pytest

from controlplane.access.models import ActLink
from controlplane.domain.notify.text import Ask, Told
from controlplane.notify import actions, planning, registry, sending
from controlplane.notify.models import Message, Transport
from controlplane.notify.secrets import unseal

from .conftest import after


@pytest.fixture
def message(night, transport, rule):
    rule((0, transport(authorization="Bearer hush", signing_key="k")))
    night.call()
    planning.plan(after(0))
    return Message.objects.get()


def at(second):
    return lambda: after(second)


def test_what_fails_is_tried_again_until_it_is_taken_with_the_same_key(night, receiver, message):
    receiver.replies = [500, 503]
    night.until(20)
    message.refresh_from_db()
    assert (message.state, message.tries, message.proof["status"]) == ("delivered", 3, 200)
    assert len({one["headers"]["Idempotency-Key"] for one in receiver.got}) == 1


def test_a_sender_that_dies_between_sending_and_writing_is_followed_with_the_same_key(receiver, message, monkeypatch):
    with monkeypatch.context() as dying:
        dying.setattr(sending, "_record", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            sending.send(message.pk, at(5))
    assert sending.due(after(30), 4) == []
    assert sending.due(after(70), 4) == [message.pk]
    sending.send(message.pk, at(70))
    message.refresh_from_db()
    assert message.state == "delivered"
    assert len(receiver.got) == 2
    assert len({one["headers"]["Idempotency-Key"] for one in receiver.got}) == 1


def test_a_sender_that_slept_past_its_claim_writes_nothing(receiver, message):
    first = sending._claim(message.pk, after(5))
    second = sending.send(message.pk, at(70))
    sending._record(first, sending.Answer(fate=sending.Fate.NEVER, why="too late"), "", after(71))
    second.refresh_from_db()
    assert second.state == "delivered"


def test_a_mistake_in_the_words_keeps_nobody_from_being_called(receiver, message, monkeypatch):
    monkeypatch.setitem(registry._renderers, "incident", lambda _subject, _now: 1 / 0)
    sending.send(message.pk, at(5))
    assert receiver.json()["text"] == "Incident 1 needs attention."


def test_what_a_runbook_asks_can_be_answered_from_the_message_until_it_lapses(receiver, message, world):
    asks = [
        Ask(word=word, purpose=word.lower(), subject="approval:7", until=after(60)) for word in ("Approve", "Reject")
    ]
    late = Ask(word="Late", purpose="approve", subject="approval:6", until=after(1))
    world["incident:1"] = Told(
        subject="incident:1",
        sentence="Run demo is stopped",
        asks=(*asks, late),
        links=(("Take it back", "https://page"),),
    )
    sending.send(message.pk, at(5))
    assert [word for word, _ in receiver.json()["subjects"][0]["links"]] == ["Approve", "Reject", "Take it back"]
    assert re.search(r"^Reject: https://watch\.example\.org/\S+$", receiver.json()["body"], re.MULTILINE)
    made = {link.purpose: (link.expires_at, link.person) for link in ActLink.objects.all()}
    assert made == {
        "acknowledge": (after(5) + sending.LINK_LIFE, ""), "approve": (after(60), ""), "reject": (after(60), ""),
    }  # fmt: skip


def test_a_mistake_of_ours_is_written_down_and_tried_again(night, receiver, message, monkeypatch):
    with monkeypatch.context() as wrong:
        wrong.setattr(sending, "SENDERS", {"webhook": lambda *_: {}["no"]})
        sending.send(message.pk, at(5))
    message.refresh_from_db()
    assert (message.state, message.why) == ("failed", "Middlewatch failed at it: KeyError")
    night.until(12)
    assert len(receiver.got) == 1


def test_two_senders_send_a_message_once(receiver, message):
    results = [sending.send(message.pk, at(5)), sending.send(message.pk, at(5))]
    assert results[1] is None
    assert len(receiver.got) == 1


def test_what_a_receiver_calls_wrong_is_given_up_with_its_word(night, receiver, message):
    receiver.replies = [422]
    night.until(30)
    message.refresh_from_db()
    assert (message.state, message.tries, message.why) == ("given_up", 1, "the receiver answered 422")


def test_a_receiver_that_asks_for_patience_is_left_alone_so_long(night, receiver, message):
    receiver.replies = [(503, {"Retry-After": "40"})]
    night.until(40)
    assert len(receiver.got) == 1
    night.until(60)
    assert len(receiver.got) == 2


def test_a_stalled_transport_leaves_senders_for_the_others(transport, db):
    slow, other = transport("slow"), transport("other")
    for place in (slow, slow, slow, other):
        planning.write(place, "ended", "t", after(0), loud=False, at=after(0))
    chosen = Message.objects.filter(pk__in=sending.due(after(1), 4))
    assert sorted(chosen.values_list("sent_by", flat=True)) == ["other", "slow", "slow"]


def test_a_body_is_signed_and_its_secrets_stay_out_of_the_database(night, receiver, message):
    night.until(5)
    headers = receiver.got[0]["headers"]
    assert headers["Authorization"] == "Bearer hush"
    assert len(headers["Middlewatch-Signature"]) == 64
    row = Transport.objects.get()
    assert "hush" not in row.secret
    assert receiver.url not in json.dumps([row.settings, row.place])
    assert unseal(row.secret)["authorization"] == "Bearer hush"


def test_another_secret_key_says_that_secrets_must_be_given_anew(night, receiver, message, settings):
    settings.SECRET_KEY = "another" * 8
    night.until(5)
    message.refresh_from_db()
    assert message.state == "given_up"
    assert "give the secrets of this transport anew" in message.why


def test_a_test_message_is_sent_at_once_and_shows_its_proof(receiver, transport):
    receiver.replies = [200, 500]
    first, second = (actions.test(transport(name), at(0)) for name in ("ana", "ben"))
    assert (first.state, first.proof["status"]) == ("delivered", 200)
    assert (second.state, second.why) == ("given_up", "the receiver answered 500")
    assert "nothing has happened" in receiver.json(0)["text"]
