"""Runbook R-01: bring a run back from its newest complete checkpoint.

One runbook serves a crash, a hang and a lost node, because what differs is only
how sure we must be before something is stopped. Stacks are taken first, since a
kill destroys the evidence; the restart counts as done only when the run has got
further than it ever was, since a launch that does not train is no recovery.
"""

from controlplane.domain.recovery.runbook import COLLECT_BUDGET_S, Runbook, StepSpec

RESTART_FROM_CHECKPOINT = Runbook(
    id="restart-from-checkpoint",
    code="R-01",
    version=1,
    title="Restart from the newest complete checkpoint",
    summary="Collect stacks, stop what is left, choose checkpoint and nodes, launch, and wait for new progress.",
    steps=(
        StepSpec(
            name="collect",
            limit_s=COLLECT_BUDGET_S,
            optional=True,
            waits_for="stacks from the ranks that still live",
            next_words="collect stacks from the ranks that still live",
            doing="collecting stacks",
            done="Collected stacks: {answered} of {asked} ranks answered.",
            failed="Collected no complete set of stacks: {why}.",
        ),
        StepSpec(
            name="confirm",
            limit_s=7200,
            waits_for="the finding to be confirmed or to clear",
            next_words="stop the attempt only once the finding is confirmed",
            doing="waiting until the finding is confirmed or clears",
            done="Confirmed: {why}.",
            failed="Could neither confirm nor clear the finding: {why}.",
        ),
        StepSpec(
            name="stop",
            limit_s=60,
            retries=2,
            waits_for="the launcher to prove that no rank is left",
            next_words="stop what is left of attempt {attempt}",
            doing="stopping what is left of attempt {attempt}",
            done="Stopped what was left of attempt {attempt}.",
            failed="Could not stop attempt {attempt}: {why}.",
        ),
        StepSpec(
            name="choose_checkpoint",
            limit_s=60,
            retries=2,
            waits_for="the launcher to look at the checkpoints",
            next_words="choose the newest complete checkpoint",
            doing="looking for the newest complete checkpoint",
            done="Chose the checkpoint of step {step}: {why}.",
            failed="Could not choose a checkpoint: {why}.",
        ),
        StepSpec(
            name="choose_nodes",
            limit_s=600,
            waits_for="a verdict on silent nodes, or a free node",
            next_words="choose the nodes of the next attempt",
            doing="choosing the nodes of the next attempt",
            done="Chose {nodes}: {why}.",
            failed="Could not find enough nodes: {why}.",
        ),
        StepSpec(
            name="launch",
            limit_s=120,
            retries=1,
            waits_for="the launcher to start the attempt",
            next_words="restart from step {step}",
            doing="launching attempt {attempt} from step {step}",
            done="Launched attempt {attempt} on {nodes} from step {step}.",
            failed="Could not launch attempt {attempt}: {why}.",
        ),
        StepSpec(
            name="await_progress",
            limit_s=3600,
            waits_for="a step beyond the high-water step",
            next_words="wait for a step beyond {high_water}",
            doing="waiting for a step beyond {high_water}",
            done="Attempt {attempt} reached step {step}, beyond the earlier {high_water}.",
            failed="Attempt {attempt} did not get beyond step {high_water}: {why}.",
        ),
        StepSpec(
            name="close",
            limit_s=60,
            retries=2,
            waits_for="nothing",
            next_words="write down what the fault cost",
            doing="writing down what the fault cost",
            done="Wrote down what the fault cost: {steps} lost steps, {seconds} s.",
            failed="Could not write down what the fault cost: {why}.",
        ),
    ),
)
