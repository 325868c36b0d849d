"""The environment, typed and read once.

Every variable that the control plane listens to stands here, with its default
and the sentence that `docs/settings.md` repeats. A wrong value stops the
program at boot with all errors listed, not at 3 am with the first one met.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

LEAST_SECRET_LENGTH = 32
MOST_RETENTION_DAYS = 3650
_HOST = re.compile(r"[0-9A-Za-z.:_-]+(/\d{1,3})?")


class SettingsError(Exception):
    """The environment does not fit; the message has one line for each variable."""


class LogFormat(StrEnum):
    """How log lines are written."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least urgent line that is still written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def _postgresql(url: str) -> str:
    if url and urlsplit(url).scheme not in {"postgresql", "postgres"}:
        raise ValueError("must begin with postgresql://; no other database is supported")
    return url


def _redis(url: str) -> str:
    if url and urlsplit(url).scheme not in {"redis", "rediss"}:
        raise ValueError("must begin with redis:// or rediss://")
    return url


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address such as https://watch.example.org")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError("must end after the host and port")
    return url.rstrip("/")


def _secret(key: str) -> str:
    if key and len(key) < LEAST_SECRET_LENGTH:
        raise ValueError(f"must have at least {LEAST_SECRET_LENGTH} characters")
    return key


def _hosts(text: str) -> str:
    wrong = [part for part in text.split(",") if part.strip() and not _HOST.fullmatch(part.strip())]
    if wrong:
        raise ValueError("must hold host names, addresses and networks as 10.1.0.0/16, separated by commas")
    return text


class Environment(BaseSettings):
    """Settings that differ between installations."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    database_url: Annotated[str, AfterValidator(_postgresql)] = Field(
        default="",
        description="postgresql://user:password@host:port/name. Empty: `make serve` starts its own PostgreSQL.",
    )
    redis_url: Annotated[str, AfterValidator(_redis)] = Field(
        default="",
        description="redis://:password@host:port/0. Empty: `make serve` starts its own server.",
    )
    middlewatch_home: Path = Field(
        default=Path("var"),
        description="Folder that `make serve` keeps its data, secrets and logs in.",
    )
    middlewatch_secret_key: Annotated[str, AfterValidator(_secret)] = Field(
        default="",
        description="Signs sessions and links; at least 32 characters. `make serve` makes and keeps one.",
    )
    middlewatch_base_url: Annotated[str, AfterValidator(_web_address)] = Field(
        default="http://127.0.0.1:8000",
        description="Address that people open; links begin with it. With https, cookies are sent by https alone.",
    )
    middlewatch_allowed_hosts: str = Field(
        default="*",
        description="Comma-separated host names that pages may be asked for by.",
    )
    middlewatch_event_retention_days: int = Field(
        default=30,
        ge=1,
        le=MOST_RETENTION_DAYS,
        description="Days that events are kept; an older partition is dropped once as many later days have theirs.",
    )
    middlewatch_message_retention_days: int = Field(
        default=90,
        ge=1,
        le=MOST_RETENTION_DAYS,
        description="Days that it is kept who was told of what, once that is over.",
    )
    middlewatch_command_retention_days: int = Field(
        default=90,
        ge=1,
        le=MOST_RETENTION_DAYS,
        description="Days that ended commands to agents and sign-in links that are over are kept.",
    )
    middlewatch_runbooks: str = Field(
        default="",
        description="Comma-separated folders with runbook files of your own, beside those that are shipped.",
    )
    middlewatch_actions: str = Field(
        default="",
        description="Comma-separated Python modules with runbook actions of your own (docs/runbooks.md).",
    )
    middlewatch_runs_at_once: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Runs that automation may act on within 10 minutes without a person; a tenth of all if more.",
    )
    middlewatch_spares_kept: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Spares that must remain free when a node is left out on a suspicion alone.",
    )
    middlewatch_breaker_runs: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Runs on which a runbook fails within an hour until automation only proposes, for all runs.",
    )
    middlewatch_breaker_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of the nodes, 4 at least, that automation takes out within a day until it only proposes.",
    )
    middlewatch_notify_allow: Annotated[str, AfterValidator(_hosts)] = Field(
        default="",
        description="Comma-separated hosts and networks in private ranges that messages may be sent to.",
    )
    middlewatch_log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="DEBUG, INFO, WARNING or ERROR.",
    )
    middlewatch_log_format: LogFormat = Field(
        default=LogFormat.AUTO,
        description="console, json, or auto: console at a terminal and json elsewhere.",
    )
    middlewatch_debug: bool = Field(
        default=False,
        description="Django's debug pages. Never outside development.",
    )

    @classmethod
    def variables(cls) -> dict[str, tuple[object, str]]:
        """Return each variable's default and description by its name."""
        return {
            name.upper(): (field.default, field.description or "")
            for name, field in cls.model_fields.items()
        }  # fmt: skip


def load(**given: object) -> Environment:
    """Read the environment; `given` values win over it.

    Raises:
        SettingsError: naming every variable that does not fit.
    """
    try:
        return Environment(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = sorted(f"{str(item['loc'][0]).upper()}: {_plain(item['msg'])}" for item in error.errors())
        raise SettingsError(_listed("The environment does not fit:", lines)) from None


def missing_to_serve(env: Environment) -> Mapping[str, str]:
    """Return what a serving process must have and has not, by variable."""
    needed = {
        "DATABASE_URL": (env.database_url, "is not set"),
        "REDIS_URL": (env.redis_url, "is not set"),
        "MIDDLEWATCH_SECRET_KEY": (env.middlewatch_secret_key or env.middlewatch_debug, "is not set"),
    }
    return {name: why for name, (value, why) in needed.items() if not value}


def require_fit_to_serve(env: Environment) -> None:
    """Refuse to boot a process that would serve pages or run tasks without its secrets.

    Raises:
        SettingsError: naming every variable that is missing.
    """
    lines = [f"{name}: {why}" for name, why in missing_to_serve(env).items()]
    if lines:
        raise SettingsError(_listed("Middlewatch cannot serve:", lines))


@cache
def environment() -> Environment:
    """Return the environment, read on the first call; ends the program when it does not fit."""
    try:
        return load()
    except SettingsError as error:
        raise SystemExit(str(error)) from None


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _listed(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines), "docs/settings.md describes every variable."])
