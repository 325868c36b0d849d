"""What the style guide shows where a page would show something that is rare."""

from datetime import datetime, timedelta
from typing import Any

from controlplane.web.present import runbook
from controlplane.web.present.approval import Ask
from controlplane.web.present.buttons import Button


def acting(now: datetime) -> dict[str, Any]:
    """Give an approval that nobody can press, and a difference of two versions."""
    question = Ask(
        title="Roll back behind the onset of the trouble",
        why="The run asks before it acts",
        will=["Stop attempt 7 on n01, n02, n03, n04", "Go back to the checkpoint of step 80 000", "Launch attempt 8"],
        on="llama-70b-v3, without n03",
        agreed="ana agreed; a second person has to agree as well.",
        unanswered="Without an answer nothing is done, and somebody is called",
        word="llama-70b-v3",
        until=now + timedelta(minutes=14),
        changed=["node n02 is suspect by now, it was healthy"],
    )
    return {
        "ask": question,
        "approve": Button(label="Approve", icon="check", url="#", why_not="an example"),
        "reject": Button(label="Reject", icon="cross", url="#", why_not="an example"),
        "diff": runbook.diff(
            "version: 1\nsteps:\n  - do: stop\n", "version: 2\nsteps:\n  - do: collect\n  - do: stop\n"
        ),
        "now": now,
    }
