"""The steps that several runbooks share: limits, retries and words, written once."""

from dataclasses import replace

from controlplane.domain.recovery.runbook import COLLECT_BUDGET_S, StepSpec

BOUNDARY_LIMIT_S = 30 * 86_400.0
"""A run that saves nothing for so long has an incident of its own by then."""

COLLECT = StepSpec(
    name="collect",
    limit_s=COLLECT_BUDGET_S,
    optional=True,
    waits_for="stacks from the ranks that still live",
    next_words="collect stacks from the ranks that still live",
    doing="collecting stacks",
    done="Collected stacks: {answered} of {asked} ranks answered.",
    failed="Collected no complete set of stacks: {why}.",
)

CONFIRM = StepSpec(
    name="confirm",
    limit_s=7200,
    waits_for="the finding to be confirmed or to clear",
    next_words="stop the attempt only once the finding is confirmed",
    doing="waiting until the finding is confirmed or clears",
    done="Confirmed: {why}.",
    failed="Could neither confirm nor clear the finding: {why}.",
)

STOP = StepSpec(
    name="stop",
    limit_s=60,
    retries=2,
    waits_for="the launcher to prove that no rank is left",
    next_words="stop what is left of attempt {attempt}",
    doing="stopping what is left of attempt {attempt}",
    done="Stopped what was left of attempt {attempt}.",
    failed="Could not stop attempt {attempt}: {why}.",
)

CHOOSE_CHECKPOINT = StepSpec(
    name="choose_checkpoint",
    limit_s=60,
    retries=2,
    waits_for="the launcher to look at the checkpoints",
    next_words="choose the newest complete checkpoint",
    doing="looking for the newest complete checkpoint",
    done="Chose the checkpoint of step {step}: {why}.",
    failed="Could not choose a checkpoint: {why}.",
)

CHOOSE_ROLLBACK = StepSpec(
    name="choose_rollback",
    limit_s=60,
    waits_for="nothing",
    next_words="choose a checkpoint from well before the trouble",
    doing="choosing a checkpoint from well before the trouble",
    done="Chose the checkpoint of step {step}: {why}.",
    failed="Could not choose a checkpoint from before the trouble: {why}.",
)

CHOOSE_NODES = StepSpec(
    name="choose_nodes",
    limit_s=600,
    waits_for="a verdict on silent nodes, or a free node",
    next_words="choose the nodes of the next attempt",
    doing="choosing the nodes of the next attempt",
    done="Chose {nodes}: {why}.",
    failed="Could not find enough nodes: {why}.",
)

LAUNCH = StepSpec(
    name="launch",
    limit_s=120,
    retries=1,
    waits_for="the launcher to start the attempt",
    next_words="restart from step {step}",
    doing="launching attempt {attempt} from step {step}",
    done="Launched attempt {attempt} on {nodes} from step {step}.",
    failed="Could not launch attempt {attempt}: {why}.",
)

AWAIT_PROGRESS = StepSpec(
    name="await_progress",
    limit_s=3600,
    waits_for="a step beyond the high-water step",
    next_words="wait for a step beyond {high_water}",
    doing="waiting for a step beyond {high_water}",
    done="Attempt {attempt} reached step {step}, beyond the earlier {high_water}.",
    failed="Attempt {attempt} did not get beyond step {high_water}: {why}.",
)

CLOSE = StepSpec(
    name="close",
    limit_s=60,
    retries=2,
    waits_for="nothing",
    next_words="write down what the fault cost",
    doing="writing down what the fault cost",
    done="Wrote down what the fault cost: {steps} lost steps, {seconds} s.",
    failed="Could not write down what the fault cost: {why}.",
)

AWAIT_BOUNDARY = StepSpec(
    name="await_boundary",
    limit_s=BOUNDARY_LIMIT_S,
    waits_for="the next complete checkpoint",
    next_words="let the run train on until its next complete checkpoint",
    doing="letting the run train on until its next complete checkpoint",
    done="The checkpoint of step {boundary} is complete, so nothing is lost by stopping now.",
    failed="No checkpoint was completed: {why}.",
)

DRAIN = StepSpec(
    name="drain",
    limit_s=60,
    waits_for="the ledger",
    next_words="take the suspected node out of the run",
    doing="taking the suspected node out of the run",
    done="Drained node {drained}.",
    failed="Could not drain the suspected node: {why}.",
)

CONFIRM_AT_ONCE = replace(CONFIRM, next_words="roll back only once the finding is confirmed")
