"""What programs send and get about notifications. Secrets go in and never come out."""

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field, StringConstraints

from controlplane.notify import queries
from controlplane.notify.models import Message, Rule

Text = Annotated[str, StringConstraints(max_length=2000)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


class TransportIn(Schema):
    """A transport to add; `settings` are the fields of its kind, secrets included."""

    name: Text
    kind: Text
    settings: dict[str, Text] = Field(default={}, max_length=20)
    person: Text = ""


class TransportOut(Schema):
    """A transport without its secrets."""

    id: int
    name: str
    kind: str
    place: str
    person: str
    settings: dict[str, Any]
    enabled: bool
    created_at: datetime
    created_by: str


class StepIn(Schema):
    """A step of an escalation: so long after the one before, these transports."""

    after_s: Seconds = 0
    transports: list[int] = Field(max_length=50)


class RuleIn(Schema):
    """A rule to add."""

    name: Text
    severity: Text = "critical"
    takes: Text = "loud"
    runs: list[Text] = Field(default=[], max_length=100)
    classes: list[Text] = Field(default=[], max_length=100)
    hours: Text = ""
    time_zone: Text = "UTC"
    remind_s: Seconds = 0
    steps: list[StepIn] = Field(max_length=20)


class RuleOut(Schema):
    """A rule, and the same in words."""

    id: int
    name: str
    enabled: bool
    severity: str
    takes: str
    runs: list[str]
    classes: list[str]
    hours: str
    time_zone: str
    remind_s: float
    words: str

    @staticmethod
    def resolve_words(rule: Rule) -> str:
        """Say the rule in one sentence."""
        return queries.rule_words(rule)


class SwitchIn(Schema):
    """On or off."""

    enabled: bool


class SilenceIn(Schema):
    """Wake nobody about a run, or about anything, for some minutes."""

    run: Text = ""
    minutes: Seconds


class SilenceOut(Schema):
    """A silence; it ends by itself."""

    run: str
    by: str
    until: datetime


class WindowIn(Schema):
    """Maintenance of these runs, or of everything, from now or later."""

    runs: list[Text] = Field(default=[], max_length=100)
    minutes: Seconds
    begins_at: datetime | None = None
    why: Text = ""


class WindowOut(Schema):
    """Maintenance; it ends by itself."""

    id: int
    runs: list[str]
    begins_at: datetime
    until: datetime
    why: str
    by: str


class SignIn(Schema):
    """An outside address that is to hear from us."""

    name: Text
    url: Text
    every_s: Seconds = 30


class SignOut(Schema):
    """An outside address, without what is secret of it."""

    id: int
    name: str
    place: str
    every_s: float
    last_ok_at: datetime | None
    why: str


class MessageOut(Schema):
    """A message with its state and its proof."""

    id: int
    sent_by: str
    kind: str
    loud: bool
    key: str
    state: str
    tries: int
    text: str
    why: str
    proof: dict[str, Any]
    created_at: datetime
    ended_at: datetime | None
    subjects: list[str]

    @staticmethod
    def resolve_subjects(message: Message) -> list[str]:
        """Name what it tells of."""
        return list(message.mentions.values_list("call__subject", flat=True)[:100])


class ReadyOut(Schema):
    """Whether somebody would be called at every hour; `why_not` says what is missing."""

    ready: bool
    why_not: str
