import pytest

from controlplane.domain.errors import Invalid
from controlplane.notify.kinds import MAX_VALUE, check

MAIL = {"host": "mail.example.org", "sender": "watch@example.org", "recipients": "ana@example.org, ben@example.org"}


def test_secrets_are_told_apart_from_what_may_be_shown():
    checked = check("email", {**MAIL, "username": "watch", "password": "hush"})
    assert checked.public["port"] == "587"
    assert "password" not in checked.public
    assert checked.secret == {"password": "hush"}
    assert checked.place == "ana@example.org, ben@example.org by mail.example.org"


def test_the_place_of_a_web_hook_tells_its_host_alone():
    checked = check("slack", {"url": "https://hooks.example.org/T01/secret"})
    assert (checked.place, dict(checked.public)) == ("https://hooks.example.org/…", {})


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [
        ("pigeon", {}, "kind"),
        ("email", {**MAIL, "host": ""}, "host"),
        ("email", {**MAIL, "port": "70000"}, "port"),
        ("email", {**MAIL, "security": "hope"}, "security"),
        ("email", {**MAIL, "sender": "watch"}, "sender"),
        ("email", {**MAIL, "recipients": "a@b\nBcc: c@d"}, "recipients"),
        ("email", {**MAIL, "recipients": ",".join(f"a{n}@b.example" for n in range(21))}, "recipients"),
        ("email", {**MAIL, "password": "hush"}, "username"),
        ("email", {**MAIL, "colour": "red"}, "colour"),
        ("webhook", {"url": "ftp://example.org"}, "url"),
        ("webhook", {"url": "https://user:word@example.org/"}, "url"),
        ("webhook", {"url": "https://example.org/\r\nHost: inside"}, "url"),
        ("webhook", {"url": "https://example.org/" + "x" * MAX_VALUE}, "url"),
        ("webhook", {"url": "https://example.org:99999/"}, "url"),
        ("pagerduty", {}, "routing_key"),
        ("apprise", {"url": "nothing"}, "url"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_field(kind, given, field):
    with pytest.raises(Invalid) as caught:
        check(kind, given)
    assert caught.value.field == field
