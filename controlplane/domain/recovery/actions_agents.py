"""Actions that agents and the training itself carry out: switches that a training loop obeys, checks of nodes."""

from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words

SWITCHES = ("save", "kill")
WAIT_S = 120.0
MOST_WAIT_S = 600.0
"""An agent arms no switch for longer."""

AGENT_ACTIONS: Sequence[Action] = (
    Action(
        name="arm_switch",
        about="Ask the training to save and go on, or to save and end; let a teardown follow a kill.",
        effect=Effect.ACTS,
        limit_s=900,
        gives=frozenset({"armed", "acknowledged", "switch_step"}),
        params={
            "what": Param(kind=Kind.CHOICE, about="save and go on, or save and end", required=True, choices=SWITCHES),
            "wait": Param(
                kind=Kind.DURATION,
                about="how long the ranks may take to answer; then the switch disarms itself",
                default=WAIT_S,
                least=5.0,
                most=MOST_WAIT_S,
            ),
        },
        undo="disarm_switch",
        words=Words(
            waits_for="the ranks to take the switch",
            next="arm the {what} switch of the training",
            doing="arming the {what} switch of attempt {attempt}",
            done="Rank {acknowledged} took the {what} switch after step {switch_step}; what it asks for is done.",
            failed="The {what} switch came to nothing: {why}.",
        ),
    ),
    Action(
        name="disarm_switch",
        about="Take away the switch that this runbook armed, where no rank has taken it yet.",
        effect=Effect.ACTS,
        limit_s=60,
        words=Words(
            waits_for="the node's agent to take the switch away",
            next="disarm the switch",
            doing="disarming the switch of attempt {attempt}",
            done="The switch of attempt {attempt} is disarmed.",
            failed="Could not disarm the switch: {why}.",
        ),
    ),
    Action(
        name="run_check",
        about="Run a check that the nodes' own configuration names, on the nodes of the attempt.",
        effect=Effect.LOOKS,
        limit_s=900,
        optional=True,
        gives=frozenset({"check_passed", "check_failed", "check_unknown"}),
        params={
            "check": Param(kind=Kind.TEXT, about="name of the check in the nodes' agent.toml", required=True),
            "budget": Param(
                kind=Kind.DURATION, about="how long it may take on a node", default=60.0, least=1.0, most=3600.0
            ),
            "must_pass": Param(kind=Kind.FLAG, about="the step fails unless every node passes", default=False),
        },
        words=Words(
            waits_for="the nodes to finish the check",
            next="run the check {check} on the nodes of the attempt",
            doing="running the check {check}",
            done="Check {check}: passed on {check_passed}, failed on {check_failed}, unknown on {check_unknown}.",
            failed="The check {check} was not passed: {why}.",
        ),
    ),
)
