"""Whom we may connect to: nothing private unless an administrator has allowed it.

Addresses of web hooks come from people, so a request could be aimed at the cluster's own
services or at a cloud's metadata. A name is resolved once, what it resolves to is
checked, and the connection goes to exactly that, so a name that changes in between gains
nothing. `MIDDLEWATCH_NOTIFY_ALLOW` names hosts and networks that are meant.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from controlplane.domain.errors import Refused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CONNECT_S = 4.0

SPECIAL = tuple(ipaddress.IPv4Network(text) for text in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
))  # fmt: skip
"""Every IPv4 network that is not the public internet: private, shared, loopback, link-local, multicast and others."""
GLOBAL_6 = IPv6Network("2000::/3")
SPECIAL_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""What is not public inside the public range: tunnels that hide an IPv4 address, and documentation."""


def allows(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Tell whether an address is public, or inside a network that was allowed."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in networks):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL)
    return address in GLOBAL_6 and not any(address in network for network in SPECIAL_6)


def parse_allowed(entries: Sequence[str]) -> tuple[frozenset[str], list[Network]]:
    """Tell host names from networks in what an administrator has allowed."""
    hosts: set[str] = set()
    networks: list[Network] = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            hosts.add(entry.lower())
    return frozenset(hosts), networks


def resolve(host: str, port: int, allowed: Sequence[str]) -> list[str]:
    """Return the addresses of a host that we may connect to.

    Raises:
        Refused: there is none among those that it has.
        OSError: the name cannot be resolved.
    """
    hosts, networks = parse_allowed(allowed)
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if host.lower() in hosts:
        return found
    fit = [text for text in found if allows(ipaddress.ip_address(text.partition("%")[0]), networks)]
    if not fit:
        raise Refused(
            f"{host} is at {found[0] if found else 'no address'}, which is private: an administrator has to allow it "
            "in MIDDLEWATCH_NOTIFY_ALLOW"
        )
    return fit


def dial(host: str, port: int, allowed: Sequence[str], timeout_s: float = CONNECT_S) -> socket.socket:
    """Connect to a host at the first of its allowed addresses that answers.

    Raises:
        Refused: none of its addresses is allowed.
        OSError: no address answers.
    """
    trouble: OSError = OSError(f"{host} has no address")
    for address in resolve(host, port, allowed)[:4]:
        try:
            return socket.create_connection((address, port), timeout=timeout_s)
        except OSError as error:
            trouble = error
    raise trouble
