import socket

import pytest

from controlplane.domain.errors import Refused
from controlplane.notify import addresses


@pytest.fixture
def names(monkeypatch):
    """Answer names from a table; each question takes the next answer of its name."""
    table = {}

    def getaddrinfo(host, port, *_args, **_more):
        answers = table.get(host, [[host]])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1",
        "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
        "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "100::1",
        "2001::1", "2001:db8::1", "2002:7f00:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1",
        "ff02::1",
    ],
)  # fmt: skip
def test_no_private_address_is_reached(names, address):
    with pytest.raises(Refused, match="MIDDLEWATCH_NOTIFY_ALLOW"):
        addresses.resolve(address, 443, [])


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are_reached(names, address):
    assert addresses.resolve(address, 443, []) == [address]


@pytest.mark.parametrize("written", ["0x7f000001", "2130706433", "0177.0.0.1", "127.1"])
def test_a_private_address_written_in_another_way_is_still_private(written):
    with pytest.raises((Refused, OSError)):
        addresses.resolve(written, 80, [])


def test_a_name_that_leads_inside_is_refused_and_only_its_public_addresses_are_used(names):
    names["inside.example.org"] = [["10.0.0.5"]]
    names["both.example.org"] = [["10.0.0.5", "1.1.1.1"]]
    with pytest.raises(Refused, match=r"inside\.example\.org is at 10\.0\.0\.5"):
        addresses.resolve("inside.example.org", 80, [])
    assert addresses.resolve("both.example.org", 80, []) == ["1.1.1.1"]


def test_an_administrator_may_allow_a_network_or_a_host(names):
    names["Mail.example.org"] = [["10.0.0.5"]]
    assert addresses.resolve("10.1.2.3", 25, ["10.1.0.0/16"]) == ["10.1.2.3"]
    assert addresses.resolve("::ffff:10.1.2.3", 25, ["10.1.0.0/16"]) == ["::ffff:10.1.2.3"]
    assert addresses.resolve("Mail.example.org", 25, ["mail.example.org"]) == ["10.0.0.5"]
    with pytest.raises(Refused):
        addresses.resolve("10.2.0.1", 25, ["10.1.0.0/16", "mail.example.org"])


def test_the_connection_goes_to_the_address_that_was_checked_though_the_name_changes(names, monkeypatch):
    names["turns.example.org"] = [["1.1.1.1"], ["127.0.0.1"]]
    dialled = []
    monkeypatch.setattr(socket, "create_connection", lambda peer, **_: dialled.append(peer))
    addresses.dial("turns.example.org", 443, [])
    assert dialled == [("1.1.1.1", 443)]
