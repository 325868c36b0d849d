"""E-mail, Slack, PagerDuty and Apprise, each against a real receiver."""

import socket

import pytest
from aiosmtpd.controller import Controller

from controlplane.notify import actions, arranging, queries, sending
from controlplane.notify.models import Message
from controlplane.notify.transports import others

from .conftest import NOW, after


class Mailbox:
    """What a mail server does with a message: `replies` are used up one by one."""

    def __init__(self):
        self.got, self.replies, self.unknown = [], [], ""

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802 - as below
        if address == self.unknown:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 ok"

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - the name that aiosmtpd calls
        self.got.append(envelope)
        return self.replies.pop(0) if self.replies else "250 2.0.0 queued as 4711"


@pytest.fixture
def mailbox():
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=0)
    controller.port = _free_port()
    controller.start()
    box.port = controller.port
    yield box
    controller.stop()


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def mail(db, mailbox):
    given = {"host": "127.0.0.1", "port": str(mailbox.port), "security": "none", "sender": "watch@example.org",
             "recipients": "ana@example.org, ben@example.org"}  # fmt: skip
    return arranging.add_transport("mail", "email", given, "root", NOW)


def test_an_e_mail_says_it_in_its_subject_and_its_proof_is_the_servers_number(night, mailbox, mail, rule):
    rule((0, mail))
    night.call()
    night.until(5)
    text = mailbox.got[0].content.decode()
    assert mailbox.got[0].rcpt_tos == ["ana@example.org", "ben@example.org"]
    assert "Subject: [page] incident:1 is open." in text
    assert "Acknowledge: https://watch.example.org/" in text.replace("=\r\n", "")
    assert Message.objects.get().proof == {"status": 250, "said": "2.0.0 queued as 4711"}


def test_a_mail_server_that_is_busy_is_asked_again_under_the_same_message_id(night, mailbox, mail, rule):
    mailbox.replies = ["451 try later"]
    rule((0, mail))
    night.call()
    night.until(20)
    ids = {line for got in mailbox.got for line in got.content.decode().splitlines() if line.startswith("Message-ID")}
    assert (len(mailbox.got), len(ids), Message.objects.get().state) == (2, 1, "delivered")


def test_a_mail_server_that_refuses_is_not_asked_again(mailbox, mail):
    mailbox.replies = ["554 no thanks"]
    message = actions.test(mail, lambda: NOW)
    assert (message.state, message.why) == ("given_up", "127.0.0.1 answered 554 no thanks")


def test_whoever_the_mail_server_does_not_take_is_named_though_others_got_it(mailbox, mail):
    mailbox.unknown = "ben@example.org"
    message = actions.test(mail, lambda: NOW)
    assert mailbox.got[0].rcpt_tos == ["ana@example.org"]
    assert (message.state, message.why) == ("delivered", "127.0.0.1 refused ben@example.org (550 no such mailbox)")
    assert queries.proof_words(message).endswith(
        "queued as 4711; 127.0.0.1 refused ben@example.org (550 no such mailbox)"
    )


def test_a_mail_server_without_the_security_that_was_asked_for_gets_no_message(db, mailbox):
    given = {
        "host": "127.0.0.1",
        "port": str(mailbox.port),
        "sender": "watch@example.org",
        "recipients": "a@example.org",
    }
    message = actions.test(arranging.add_transport("mail", "email", given, "root", NOW), lambda: NOW)
    assert "STARTTLS" in message.why
    assert mailbox.got == []


def test_a_mail_server_inside_is_not_reached_unless_allowed(mailbox, mail, settings):
    settings.NOTIFY_ALLOW = []
    message = actions.test(mail, lambda: NOW)
    assert "MIDDLEWATCH_NOTIFY_ALLOW" in message.why
    assert mailbox.got == []


def test_pagerduty_follows_an_incident_from_trigger_to_resolve_under_one_key(night, receiver, transport, rule):
    rule((0, transport("pd", kind="pagerduty", routing_key="R0")))
    night.call()
    night.until(5)
    actions.acknowledged("incident:1", "ana", after(5))
    night.until(8)
    actions.ended("incident:1", after(8))
    night.until(12)
    events = [receiver.json(number) for number in range(len(receiver.got))]
    assert [event["event_action"] for event in events] == ["trigger", "acknowledge", "resolve"]
    assert len({event["dedup_key"] for event in events}) == 1
    assert events[0]["payload"]["severity"] == "critical"
    assert {event["routing_key"] for event in events} == {"R0"}


def test_slack_reads_no_names_as_links_or_mentions(night, receiver, transport, rule, world):
    world["incident:1"] = sending.Told(subject="incident:1", sentence="<!channel> node *n1* & co")
    rule((0, transport("slack", kind="slack")))
    night.call()
    night.until(5)
    assert receiver.json()["text"].startswith("*&lt;!channel&gt; node ∗n1∗ &amp; co.*")


def test_apprise_reaches_what_is_allowed_and_nothing_else(db, receiver, settings):
    port = receiver.server.server_port
    made = arranging.add_transport("many", "apprise", {"url": f"json://127.0.0.1:{port}/x"}, "root", NOW)
    assert actions.test(made, lambda: NOW).state == "delivered"
    assert "nothing has happened" in receiver.json()["title"] + receiver.json()["message"]
    settings.NOTIFY_ALLOW = []
    refused = actions.test(made, lambda: NOW)
    assert (refused.state, len(receiver.got)) == ("given_up", 1)
    assert "127.0.0.1 is private" in refused.why


def test_apprise_follows_no_redirect_to_the_inside(db, receiver, settings):
    settings.NOTIFY_ALLOW = ["127.0.0.1/32"]
    receiver.replies = [(307, {"Location": "http://127.0.0.2:9/metadata"})]
    url = f"json://127.0.0.1:{receiver.server.server_port}/x?redirect=yes"
    message = actions.test(arranging.add_transport("many", "apprise", {"url": url}, "root", NOW), lambda: NOW)
    assert message.state == "given_up"
    assert len(receiver.got) == 1


def test_an_address_that_apprise_does_not_know_is_said_to_be_so(db):
    made = arranging.add_transport("many", "apprise", {"url": "pigeon://loft"}, "root", NOW)
    assert actions.test(made, lambda: NOW).why == "Apprise knows no service of this address"


def test_apprise_that_takes_too_long_is_ended(db, monkeypatch):
    monkeypatch.setattr(others, "PROGRAM", ("sleep", "20"))
    monkeypatch.setattr(others, "LIMIT_S", 0.1)
    made = arranging.add_transport("many", "apprise", {"url": "json://127.0.0.1"}, "root", NOW)
    assert "did not end" in actions.test(made, lambda: NOW).why
