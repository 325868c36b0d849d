"""Send one message through Apprise, in a process that can reach nothing that is not allowed.

Reads JSON from its input and prints JSON. An audit hook, which nothing can take back,
sees every connection before it is made, whatever library asks for it, redirects
included; it also forbids to start programs, which some of Apprise's plug-ins would do.
"""

import ipaddress
import json
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

from controlplane.notify.addresses import Network, allows, parse_allowed

FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "syslog.")
CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")


class NotAllowed(OSError):
    """The hook's word; an `OSError`, so that libraries take it for a failed connection."""


class Guard:
    """Sees every act of this process that leaves it, and refuses what is not allowed."""

    def __init__(self, allowed: list[str]) -> None:
        hosts, networks = parse_allowed(allowed)
        self._networks = [*networks, *(network for host in hosts for network in _at(host))]
        self.refused = ""

    def __call__(self, event: str, details: tuple[Any, ...]) -> None:
        """Take one event of the interpreter."""
        if event.startswith(FORBIDDEN):
            self._refuse(f"it wanted to do {event}")
        elif event in CONNECTS:
            self._connects(details[1])

    def _connects(self, peer: object) -> None:
        if peer is None:  # a datagram over a connection that was seen before
            return
        host = peer[0] if isinstance(peer, tuple) and peer else peer
        try:
            address = ipaddress.ip_address(str(host).partition("%")[0])
        except ValueError:
            self._refuse(f"{host!s} is no address")
            return
        if not allows(address, self._networks):
            self._refuse(f"{address} is private: an administrator has to allow it in MIDDLEWATCH_NOTIFY_ALLOW")

    def _refuse(self, why: str) -> None:
        self.refused = self.refused or why
        raise NotAllowed(why)


def _at(host: str) -> list[Network]:
    """Return where a host that is allowed by its name can be found now."""
    try:
        return [ipaddress.ip_network(str(info[4][0]).partition("%")[0]) for info in socket.getaddrinfo(host, None)]
    except OSError:
        return []


def main() -> None:
    """Send what the input asks for and print how it went."""
    wish = json.load(sys.stdin)
    heard: list[str] = []
    notify = _apprise(heard)
    guard = Guard(wish["allowed"])
    sys.addaudithook(guard)
    try:
        sent, known = notify(wish)
    except Exception as error:  # noqa: BLE001 - plug-ins raise what they like
        sent, known = False, True
        heard.append(f"{type(error).__name__}: {error}")
    sys.stdout.write(json.dumps(_word(guard.refused, heard, sent=sent, known=known)))


def _apprise(heard: list[str]) -> Callable[[dict[str, Any]], tuple[bool, bool]]:
    """Load Apprise before the guard stands, since loading starts programs on some machines."""
    import apprise  # noqa: PLC0415 - only this process pays for it

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    logging.getLogger("apprise").addHandler(Listener(logging.WARNING))
    kinds = {"critical": apprise.NotifyType.FAILURE, "warning": apprise.NotifyType.WARNING}

    def send(wish: dict[str, Any]) -> tuple[bool, bool]:
        service = apprise.Apprise()
        if not service.add(wish["url"]):
            return False, False
        kind = kinds.get(wish["severity"], apprise.NotifyType.INFO)
        return bool(service.notify(title=wish["title"], body=wish["body"], notify_type=kind)), True

    return send


def _word(refused: str, heard: list[str], *, sent: bool, known: bool) -> dict[str, str]:
    if sent:
        return {"fate": "delivered", "why": ""}
    if not known:
        return {"fate": "never", "why": "Apprise knows no service of this address"}
    if refused:
        return {"fate": "never", "why": refused}
    return {"fate": "again", "why": heard[-1] if heard else "Apprise reports a failure without a reason"}


if __name__ == "__main__":
    main()
