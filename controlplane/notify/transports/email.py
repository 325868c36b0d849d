"""E-mail over SMTP; the `Message-ID` is the same at every try, so a mailbox keeps one copy.

What the server said when it took the message is the proof: most name the number under
which they queued it.
"""

import smtplib
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from controlplane.domain.errors import Refused
from controlplane.domain.notify.retrying import Answer, Fate
from controlplane.notify.addresses import dial
from controlplane.notify.kinds import recipients
from controlplane.notify.letters import Letter
from controlplane.notify.limits import CutOff

LIMIT_S = 20.0
QUIET_S = 8.0
SUBJECT_MAX = 180
SHOWN = 200
_TAKEN = 250
_FOREVER = 500


class Taken(NamedTuple):
    """The server's word for a message that it took, and for whom it did not."""

    reply: bytes
    left: str


class _Client(smtplib.SMTP):
    """A client that speaks over a connection which was made and checked before."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self._made = connection
        self._name = host
        super().__init__(timeout=QUIET_S, local_hostname=socket.gethostname())
        self._check(*self.connect(host))

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        del host, port, timeout
        return self._made

    def _check(self, code: int, reply: bytes) -> None:
        if not 200 <= code < 300:  # noqa: PLR2004 - replies of SMTP
            raise smtplib.SMTPResponseException(code, reply)

    def hand_over(self, message: EmailMessage, sender: str, to: list[str]) -> Taken:
        """Send to all who are taken."""
        self._check(*self.mail(sender))
        replies = {one: self.rcpt(one) for one in to}
        left = {one: reply for one, reply in replies.items() if reply[0] not in (250, 251)}
        if len(left) == len(replies):
            raise smtplib.SMTPResponseException(*min(replies.values()))
        code, reply = self.data(message.as_bytes(policy=message.policy.clone(linesep="\r\n")))
        self._check(code, reply)
        return Taken(reply, ", ".join(f"{one} ({code} {_plain(why)})" for one, (code, why) in left.items()))


def send(values: Mapping[str, str], letter: Letter, now: datetime, allowed: list[str]) -> Answer:
    """Hand a letter to the mail server."""
    host = values["host"]
    try:
        taken = _converse(values, written(values, letter, now), allowed)
    except Refused as refusal:
        return Answer(fate=Fate.NEVER, why=str(refusal))
    except smtplib.SMTPResponseException as error:
        return _refused(host, error)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return Answer(fate=Fate.AGAIN, why=f"{host} cannot be reached: {error}"[:SHOWN])
    why = f"{host} refused {taken.left}"[:SHOWN] if taken.left else ""
    return Answer(fate=Fate.DELIVERED, why=why, proof={"status": _TAKEN, "said": _plain(taken.reply)})


def _refused(host: str, error: smtplib.SMTPResponseException) -> Answer:
    fate = Fate.NEVER if error.smtp_code >= _FOREVER else Fate.AGAIN
    said = _plain(error.smtp_error)
    return Answer(fate=fate, why=f"{host} answered {error.smtp_code} {said}"[:SHOWN], proof={"status": error.smtp_code})


def _converse(values: Mapping[str, str], message: EmailMessage, allowed: list[str]) -> Taken:
    host, secure = values["host"], ssl.create_default_context()
    with dial(host, int(values["port"]), allowed) as plain, CutOff(LIMIT_S, plain):
        plain.settimeout(QUIET_S)
        line = secure.wrap_socket(plain, server_hostname=host) if values["security"] == "tls" else plain
        client = _Client(line, host)
        client.ehlo_or_helo_if_needed()
        if values["security"] == "starttls":
            client._host = host  # type: ignore[attr-defined]  # noqa: SLF001 - the name that its certificate must bear
            client.starttls(context=secure)
        if values.get("username"):
            client.login(values["username"], values.get("password", ""))
        taken = client.hand_over(message, values["sender"], recipients(values["recipients"]))
        with suppress(OSError, smtplib.SMTPException):
            client.quit()
        return taken


def written(values: Mapping[str, str], letter: Letter, now: datetime) -> EmailMessage:
    """Write a letter as an e-mail in plain text."""
    host = urlsplit(settings.BASE_URL).hostname or "middlewatch"
    message = EmailMessage()
    message["From"], message["To"] = values["sender"], ", ".join(recipients(values["recipients"]))
    message["Subject"] = subject(letter)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{letter.key}@{host}>"
    message["Auto-Submitted"] = "auto-generated"
    if letter.thread:
        message["References"] = f"<{letter.thread.replace(':', '.')}@{host}>"
    if letter.loud:
        message["Importance"] = "high"
    message.set_content(letter.body)
    return message


def subject(letter: Letter) -> str:
    """Return the first line, short enough for a list of mails."""
    mark = "" if letter.kind == "ended" or not letter.loud else "[page] "
    line = f"{mark}{letter.push}"
    return line if len(line) <= SUBJECT_MAX else f"{line[: SUBJECT_MAX - 1]}…"


def _plain(reply: bytes | str) -> str:
    return (reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply)[:SHOWN]
