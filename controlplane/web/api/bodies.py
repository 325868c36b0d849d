"""What programs send to the REST API."""

from typing import Any

from ninja import Schema
from pydantic import Field


class NewRun(Schema):
    """A run to create."""

    name: str
    launcher: str
    nodes_wanted: int
    gpus_per_node: int = 1
    mode: str = "autopilot"
    policy: dict[str, Any] = {}


class Launch(Schema):
    """The nodes to launch on; left out, healthy and spare nodes are chosen."""

    nodes: list[str] | None = Field(default=None, max_length=10_000)


class BundleIn(Schema):
    """The attempt that a support bundle is about; left out, all that the node knows."""

    run: str | None = Field(default=None, min_length=1, max_length=100)
    attempt: int | None = Field(default=None, ge=1)


class CheckIn(Schema):
    """A check by the name that the node's own file gives it, and the seconds it may take."""

    check: str = Field(min_length=1, max_length=100)
    budget_s: float = Field(default=60.0, gt=0, le=3600)


class StartIn(Schema):
    """The run on which a runbook is to start, and the inputs that its file asks for."""

    run: str
    inputs: dict[str, str] = Field(default={}, max_length=8)


class SaidIn(Schema):
    """An answer to the question of a runbook, and why."""

    answer: str
    note: str = ""


class ModeIn(Schema):
    """watch, ask or autopilot."""

    mode: str


class NoteIn(Schema):
    """A note in Markdown."""

    text: str


class SentenceIn(Schema):
    """What is known better by now."""

    sentence: str


class ReasonIn(Schema):
    """Why it is done."""

    reason: str = Field(min_length=1, max_length=2000)


class OptionalReasonIn(Schema):
    """Why it is done, if there is something to say."""

    reason: str = Field(default="", max_length=2000)


class AnswerIn(OptionalReasonIn):
    """A no to a question; `approval` is the one that was looked at, so that no other is answered."""

    approval: int | None = Field(default=None, ge=1, le=2**63 - 1)


class ApproveIn(OptionalReasonIn):
    """A yes to the question that was looked at; nobody says yes to one that was not."""

    approval: int = Field(ge=1, le=2**63 - 1)


class ReleaseIn(OptionalReasonIn):
    """Where a node goes from quarantine."""

    to: str = "spare"


class EnrolmentIn(Schema):
    """How many nodes the token may enrol, and for how long."""

    uses: int = 1
    ttl_s: int = Field(default=3600, ge=1, le=10**12)


class ReplayIn(Schema):
    """Settings of the run that a replay changes, by name; `mode` and `modes` as well."""

    settings: dict[str, Any] = {}
