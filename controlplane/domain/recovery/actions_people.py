"""Actions about people and their decisions: tell, ask, hold, pin."""

from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words

WEEK_S = 7 * 86_400.0
GO_ON = "go on"
STOP_HERE = "stop here"

PEOPLE_ACTIONS: Sequence[Action] = (
    Action(
        name="announce",
        about="Tell people something; `loud` wakes who is on call.",
        effect=Effect.ACTS,
        limit_s=60,
        params={
            "text": Param(kind=Kind.TEXT, about="what is told; facts such as {step} are filled in", required=True),
            "loud": Param(kind=Kind.FLAG, about="true wakes people, false leaves a note", default=False),
        },
        words=Words(
            next="tell people",
            doing="telling people",
            done="Told people: {text}",
            failed="Could not tell people: {why}.",
        ),
    ),
    Action(
        name="await_person",
        about="Ask people a question and wait for one of the answers; who answers is written down with their words.",
        effect=Effect.WATCHES,
        limit_s=WEEK_S,
        gives=frozenset({"answer", "answered_by"}),
        params={
            "question": Param(kind=Kind.TEXT, about="what is asked", required=True),
            "answers": Param(kind=Kind.TEXTS, about="what may be answered", default=(GO_ON, STOP_HERE)),
            "ends": Param(kind=Kind.TEXTS, about="the answers after which no step follows", default=(STOP_HERE,)),
            "loud": Param(kind=Kind.FLAG, about="true wakes people, false leaves a note", default=False),
        },
        words=Words(
            waits_for="a person's answer",
            next="ask: {question}",
            doing="asking: {question}",
            done="{answered_by} answered “{answer}”.",
            failed="Nobody answered: {why}.",
        ),
    ),
    Action(
        name="hold_run",
        about="Forbid automation to touch the run, this runbook excepted.",
        effect=Effect.ACTS,
        limit_s=60,
        gives=frozenset({"held"}),
        undo="resume_run",
        words=Words(
            next="let no other automation touch the run",
            doing="holding the run",
            done="The run is held: only a person or this runbook goes on with it.",
            failed="Could not hold the run: {why}.",
        ),
    ),
    Action(
        name="resume_run",
        about="Lift the hold that this runbook has set; a person's hold stays.",
        effect=Effect.ACTS,
        limit_s=60,
        words=Words(
            next="lift the hold of this runbook",
            doing="lifting the hold of this runbook",
            done="The hold of this runbook is lifted.",
            failed="Could not lift the hold: {why}.",
        ),
    ),
    Action(
        name="stop_run",
        about="Stop the run for good, once its attempt is over: nothing restarts it.",
        effect=Effect.ACTS,
        limit_s=60,
        words=Words(
            next="stop the run for good",
            doing="stopping the run for good",
            done="The run is stopped; nothing restarts it.",
            failed="Could not stop the run: {why}.",
        ),
    ),
    Action(
        name="pin_checkpoint",
        about="Pin the newest good checkpoint, so that it is never counted among those that may go.",
        effect=Effect.ACTS,
        limit_s=60,
        gives=frozenset({"pinned_step"}),
        undo="unpin_checkpoint",
        words=Words(
            next="pin the newest good checkpoint",
            doing="pinning the newest good checkpoint",
            done="Pinned the checkpoint of step {pinned_step}.",
            failed="Could not pin a checkpoint: {why}.",
        ),
    ),
    Action(
        name="unpin_checkpoint",
        about="Take back the pin that this runbook has set.",
        effect=Effect.ACTS,
        limit_s=60,
        words=Words(
            next="unpin the checkpoint",
            doing="unpinning the checkpoint",
            done="The checkpoint of step {pinned_step} is as it was.",
            failed="Could not unpin the checkpoint: {why}.",
        ),
    ),
)
