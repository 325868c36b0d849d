"""The actions that a runbook file may name.

A file may change their limits and words; it cannot make a new one. So a file is
checked completely before it is ever used: every action exists, every input is given by
an earlier step, and every argument is of the right kind. An operator's own actions come
from modules (`controlplane.runbooks.sdk`).
"""

from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words
from controlplane.domain.recovery.actions_agents import AGENT_ACTIONS
from controlplane.domain.recovery.actions_nodes import NODE_ACTIONS
from controlplane.domain.recovery.actions_people import PEOPLE_ACTIONS
from controlplane.domain.recovery.actions_queue import QUEUE_ACTIONS

__all__ = ["BOUNDARY_LIMIT_S", "BUILT_IN", "COLLECT_BUDGET_S", "Action", "Effect", "Kind", "Param", "Words"]

COLLECT_BUDGET_S = 3.0
"""How long agents may gather stacks before something is stopped (H-21)."""
BOUNDARY_LIMIT_S = 30 * 86_400.0
"""A run that saves nothing for so long has an incident of its own by then."""

BUILT_IN: Sequence[Action] = (
    Action(
        name="collect",
        about="Take stacks and collectives from every rank that still answers.",
        effect=Effect.LOOKS,
        limit_s=COLLECT_BUDGET_S,
        optional=True,
        gives=frozenset({"answered", "asked"}),
        words=Words(
            waits_for="stacks from the ranks that still live",
            next="collect stacks from the ranks that still live",
            doing="collecting stacks",
            done="Collected stacks: {answered} of {asked} ranks answered.",
            failed="Collected no complete set of stacks: {why}.",
        ),
    ),
    Action(
        name="confirm",
        about="Go on only once the finding is confirmed; end without a touch when it clears.",
        effect=Effect.LOOKS,
        limit_s=7200,
        gives=frozenset({"fingerprint"}),
        undo="give_back",
        words=Words(
            waits_for="the finding to be confirmed or to clear",
            next="go on only once the finding is confirmed",
            doing="waiting until the finding is confirmed or clears",
            done="Confirmed: {why}.",
            failed="Could neither confirm nor clear the finding: {why}.",
        ),
    ),
    Action(
        name="await_boundary",
        about="Let the run train on until a checkpoint is complete, so that stopping it loses nothing.",
        effect=Effect.LOOKS,
        limit_s=BOUNDARY_LIMIT_S,
        patient=True,
        gives=frozenset({"boundary", "fingerprint"}),
        words=Words(
            waits_for="the next complete checkpoint",
            next="let the run train on until its next complete checkpoint",
            doing="letting the run train on until its next complete checkpoint",
            done="The checkpoint of step {boundary} is complete, so nothing is lost by stopping now.",
            failed="No checkpoint was completed: {why}.",
        ),
    ),
    Action(
        name="drain",
        about="Let the suspected node take no further attempt.",
        effect=Effect.ACTS,
        limit_s=60,
        gives=frozenset({"drained"}),
        undo="give_back",
        words=Words(
            waits_for="the ledger",
            next="take the suspected node out of the run",
            doing="taking the suspected node out of the run",
            done="Drained node {drained}.",
            failed="Could not drain the suspected node: {why}.",
        ),
    ),
    Action(
        name="stop",
        about="End what is left of the attempt, with proof that no rank lives.",
        effect=Effect.ACTS,
        limit_s=60,
        retries=2,
        by_launcher=True,
        gives=frozenset({"stopped"}),
        words=Words(
            waits_for="the launcher to prove that no rank is left",
            next="stop what is left of attempt {attempt}",
            doing="stopping what is left of attempt {attempt}",
            done="Stopped what was left of attempt {attempt}.",
            failed="Could not stop attempt {attempt}: {why}.",
        ),
    ),
    Action(
        name="choose_checkpoint",
        about="Choose the newest complete checkpoint that nothing speaks against.",
        effect=Effect.ACTS,
        limit_s=60,
        retries=2,
        by_launcher=True,
        gives=frozenset({"restore_step"}),
        words=Words(
            waits_for="the launcher to look at the checkpoints",
            next="choose the newest complete checkpoint",
            doing="looking for the newest complete checkpoint",
            done="Chose {what}: {why}.",
            failed="Could not choose a checkpoint: {why}.",
        ),
    ),
    Action(
        name="choose_rollback",
        about="Choose a durable checkpoint from well before the onset of the trouble.",
        effect=Effect.LOOKS,
        limit_s=60,
        gives=frozenset({"restore_step", "skip", "onset_step"}),
        words=Words(
            next="choose a checkpoint from well before the trouble",
            doing="choosing a checkpoint from well before the trouble",
            done="Chose the checkpoint of step {step}: {why}.",
            failed="Could not choose a checkpoint from before the trouble: {why}.",
        ),
    ),
    Action(
        name="choose_nodes",
        about="Keep the good nodes, leave out the condemned ones, fill up with spares.",
        effect=Effect.ACTS,
        limit_s=600,
        gives=frozenset({"nodes", "excluded"}),
        undo="give_back",
        params={
            "shrink_after": Param(
                kind=Kind.DURATION,
                about="go on with fewer nodes, down to the run's nodes_least, after so long",
            )
        },
        words=Words(
            waits_for="a verdict on silent nodes, or a free node",
            next="choose the nodes of the next attempt",
            doing="choosing the nodes of the next attempt",
            done="Chose {nodes}: {why}.",
            failed="Could not find enough nodes: {why}.",
        ),
    ),
    Action(
        name="launch",
        about="Open the next attempt and have the launcher start it.",
        effect=Effect.ACTS,
        limit_s=120,
        retries=1,
        by_launcher=True,
        needs=frozenset({"stopped", "restore_step", "nodes"}),
        gives=frozenset({"new_attempt"}),
        words=Words(
            waits_for="the launcher to start the attempt",
            next="restart from step {step}",
            doing="launching attempt {attempt} from step {step}",
            done="Launched attempt {attempt} on {nodes} from step {step}.",
            failed="Could not launch attempt {attempt}: {why}.",
        ),
    ),
    Action(
        name="await_progress",
        about="Wait for a step beyond everything before: a launch that does not train is no recovery.",
        effect=Effect.WATCHES,
        limit_s=3600,
        needs=frozenset({"new_attempt"}),
        gives=frozenset({"caught_up_at"}),
        words=Words(
            waits_for="a step beyond the high-water step",
            next="wait for a step beyond {high_water}",
            doing="waiting for a step beyond {high_water}",
            done="Attempt {attempt} reached step {step}, beyond the earlier {high_water}.",
            failed="Attempt {attempt} did not get beyond step {high_water}: {why}.",
        ),
    ),
    Action(
        name="compare_norms",
        about="Hold the gradient norms of the first steps behind a change against the last ones before it.",
        effect=Effect.WATCHES,
        limit_s=3600,
        optional=True,
        patient=True,
        needs=frozenset({"new_attempt"}),
        gives=frozenset({"compared"}),
        words=Words(
            waits_for="a few steps behind the change",
            next="compare the gradient norms before and behind the change",
            doing="waiting for steps whose gradient norms can be compared",
            done="Compared with before: {compared}.",
            failed="The gradient norms were not compared: {why}.",
        ),
    ),
    Action(
        name="close",
        about="Measure what the fault cost and close what may be closed.",
        effect=Effect.WATCHES,
        limit_s=60,
        retries=2,
        words=Words(
            next="write down what the fault cost",
            doing="writing down what the fault cost",
            done="Training goes on; the fault cost {steps} steps and {seconds} s.",
            failed="Could not write down what the fault cost: {why}.",
        ),
    ),
    *AGENT_ACTIONS,
    *NODE_ACTIONS,
    *PEOPLE_ACTIONS,
    *QUEUE_ACTIONS,
)
