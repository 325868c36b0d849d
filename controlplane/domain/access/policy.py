"""Which role may do which act.

Four roles, each including the ones before it, are enough for an on-call team:
people learn them in a minute and a page can name the one role that is missing.
Acts are named after what they do to the run, not after pages or tables, so that
the pages, the REST API and the commands all ask the same question.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """What a person may do; each role includes the ones before it."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    ADMIN = "admin"


_ORDER = tuple(Role)

LEAST_ROLE: Mapping[str, Role] = MappingProxyType({
    "view": Role.VIEWER,
    # A responder is woken at night: look, say, and stop the machine from acting.
    "acknowledge": Role.RESPONDER,
    "note": Role.RESPONDER,
    "pause_runbook": Role.RESPONDER,
    "hold_run": Role.RESPONDER,
    "hold_node": Role.RESPONDER,
    "silence": Role.RESPONDER,
    "save_now": Role.RESPONDER,
    "bundle_node": Role.RESPONDER,
    "switch_off": Role.RESPONDER,
    # An operator changes what runs where.
    "start_runbook": Role.OPERATOR,
    "resume_runbook": Role.OPERATOR,
    "stop_runbook": Role.OPERATOR,
    "approve": Role.OPERATOR,
    "reject": Role.OPERATOR,
    "resume_run": Role.OPERATOR,
    "resume_node": Role.OPERATOR,
    "switch_on": Role.OPERATOR,
    "create_run": Role.OPERATOR,
    "set_mode": Role.OPERATOR,
    "set_policy": Role.OPERATOR,
    "launch_run": Role.OPERATOR,
    "stop_run": Role.OPERATOR,
    "resolve": Role.OPERATOR,
    "correct": Role.OPERATOR,
    "replay": Role.OPERATOR,
    "quarantine_node": Role.OPERATOR,
    "check_node": Role.OPERATOR,
    "release_node": Role.OPERATOR,
    "maintain": Role.OPERATOR,
    # An admin decides who and which machines may speak at all.
    "enrol_node": Role.ADMIN,
    "revoke_node": Role.ADMIN,
    "manage_notifications": Role.ADMIN,
    "manage_people": Role.ADMIN,
})  # fmt: skip


def least_role(act: str) -> Role:
    """Return the lowest role that may do `act`; an act that is not listed is a mistake of ours (`KeyError`)."""
    return LEAST_ROLE[act]


def allows(role: str, act: str) -> bool:
    """Tell whether `role` includes the least role of `act`."""
    return _ORDER.index(Role(role)) >= _ORDER.index(least_role(act))
