"""Turn a short-lived enrolment token into this node's own token, once."""

from http import HTTPStatus
from pathlib import Path

import msgspec
from middlewatch_wire.limits import MAX_NAME

from middlewatch_agent import config
from middlewatch_agent.files import private_folder, write_private
from middlewatch_agent.transport import Answer, Connection, UnreachableError

ENROL = "/api/v1/enrol"
TOKEN_FILE = "token"  # noqa: S105 - the name of a file


class EnrolError(Exception):
    """The node has no token; the message says why, for people."""


def buy_token(state_dir: Path, *, url: str, enrolment: str, node: str, ca_file: str | None = None) -> None:
    """Ask for a token, keep it (mode 0600) and write `agent.toml`; raises EnrolError."""
    if not 0 < len(node) <= MAX_NAME or not node.isprintable():
        raise EnrolError(f"name: between 1 and {MAX_NAME} printable characters are needed")
    body = msgspec.json.encode({"token": enrolment, "node": node})
    try:
        answer = Connection(url, ca_file=ca_file).request("POST", ENROL, body)
    except ValueError as error:
        raise EnrolError(str(error)) from error
    except UnreachableError as error:
        raise EnrolError(f"{url} does not answer: {error}") from error
    token = _token(answer)
    try:
        private_folder(state_dir)
        write_private(state_dir / TOKEN_FILE, token + "\n")
        values = {"url": url, "node": node} | ({"ca_file": ca_file} if ca_file else {})
        config.save(state_dir, values)
    except OSError as error:
        raise EnrolError(f"the token cannot be kept in {state_dir}: {error}") from error


def _token(answer: Answer) -> str:
    token = answer.body.get("token") if isinstance(answer.body, dict) else None
    if answer.status in {HTTPStatus.OK, HTTPStatus.CREATED} and isinstance(token, str) and token:
        return token
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise EnrolError("the enrolment token is wrong, used up or too old; ask for a new one")
    if answer.status == HTTPStatus.CONFLICT and isinstance(answer.body, dict):
        raise EnrolError(f"{answer.body.get('message')!s:.300}")
    raise EnrolError(f"the control plane answered {answer.status}: {answer.body!r:.300}")
