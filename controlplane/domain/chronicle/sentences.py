"""One function per thing that a chronicle tells.

Past tense, short, numbers with units, hostnames and steps exact, guesses marked as
guesses, nobody blamed but machines. Each gives one sentence, with its full stop.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.domain.accounting.losses import Losses
from controlplane.domain.chronicle.words import count, duration, gpu_hours, listed, number, place
from controlplane.domain.diagnosis.classes import class_of
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.recovery.choice import Decision
from controlplane.domain.recovery.nodes import NodeChoice
from controlplane.domain.recovery.runbook import Runbook, StepSpec


def full_stop(text: str) -> str:
    """End a sentence once."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def opened(diagnosis: Diagnosis, *, run: str | None) -> str:
    """Tell that an incident was opened."""
    about = f"run {run}" if run else "the fleet"
    sure = "" if diagnosis.confirmed else " (a suspicion)"
    whose = "" if diagnosis.title.startswith(f"{about} ") else f" for {about}"
    return full_stop(f"Opened{whose}{sure}: {diagnosis.title}")


def finding(item: Finding) -> str:
    """Tell a finding that joined an open incident."""
    if item.stage is Stage.CONFIRMED:
        return confirmed(item)
    if item.stage is Stage.CLEARED:
        return cleared(item)
    return full_stop(f"Suspected: {item.sentence}")


def confirmed(item: Finding) -> str:
    """Tell that a finding was confirmed."""
    return full_stop(f"Confirmed: {item.sentence}")


def cleared(item: Finding) -> str:
    """Tell that a suspicion went away."""
    return full_stop(f"Cleared: {item.sentence}")


def save_taken(step: object) -> str:
    """Tell that the ranks took the request for a checkpoint."""
    after = f" after step {step}" if isinstance(step, int) else ""
    return f"The training took the request for a checkpoint{after}."


def evidence(item: Finding) -> str:
    """Tell the strongest lines of evidence of a finding."""
    told = "; ".join(_told_once(alike) for alike in _by_kind(item.evidence)[:3])
    return full_stop(f"Evidence: {told or 'none beside the clock'}")


def _by_kind(lines: Sequence[Evidence]) -> list[list[Evidence]]:
    """Put together what several show alike, strongest first."""
    kinds: dict[str, list[Evidence]] = {}
    for line in sorted(lines, key=lambda line: -line.weight):
        kinds.setdefault(line.kind or f"{line.entity} {line.text}", []).append(line)
    return list(kinds.values())


def _told_once(alike: Sequence[Evidence]) -> str:
    first = alike[0]
    if len({line.entity for line in alike}) == 1:
        return f"{first.text} ({_weight(first)})"
    return f"{first.text}, and {count(len(alike) - 1, 'other')} alike ({first.weight:+.2g} each, shared by all)"


_STRONG, _FAIR = 4.0, 2.0


def _weight(line: Evidence) -> str:
    """Say what a line means for its entity: “strong against node n11, +6”."""
    if line.weight <= 0:
        return f"in favour of {place(line.entity)}, {line.weight:+.2g}" if line.weight else "says nothing either way"
    word = "strong" if line.weight >= _STRONG else "fair" if line.weight >= _FAIR else "weak"
    return f"{word} against {place(line.entity)}, {line.weight:+.2g}"


def risen(old: str, new: str) -> str:
    """Tell that an incident took another class."""
    return f"The incident turned from {class_of(old).title} to {class_of(new).title}: {class_of(new).meaning}."


def again(attempt: int) -> str:
    """Tell that a mitigated incident's failure is back."""
    return f"The same failure is back in attempt {attempt}, so the incident is open again."


def flapping(times: int, within_s: float, quiet_s: float) -> str:
    """Tell once that a trouble comes and goes."""
    return (
        f"It came and went {times} times within {duration(within_s)}; the incident stays open, without further words, "
        f"until it has been quiet for {duration(quiet_s)}."
    )


def refuted(node: str, attempt: int, what: str) -> str:
    """Tell that a suspicion was wrong, and what becomes of the node."""
    return full_stop(f"Cleared node {node}: attempt {attempt} failed the same way without it; {what}")


def contradicted(node: str, now_to: str, before_to: str, before: datetime) -> str:
    """Tell that automation contradicts itself about a node, and what follows."""
    was, would = f"made {before_to} at {before:%H:%M} UTC", f"would be {now_to} by another verdict"
    return (
        f"Node {node} was {was} and {would}: automation leaves it as it is until a person moves it, for a day at most."
    )


def frozen(node: str) -> str:
    """Say in a clause why automation does not move a node."""
    return f"verdicts about {node} contradict each other, so a person has to move it"


def silenced(by: str, about: str, seconds: float, until: datetime) -> str:
    """Tell that nobody is woken for a while."""
    span = f"for {duration(seconds)}, until {until:%Y-%m-%d %H:%M} UTC"
    return f"{by} silenced pages about {about} {span}; incidents are still recorded and answered."


def suspects(diagnosis: Diagnosis) -> str:
    """Tell who is suspected and by how much."""
    if not diagnosis.blamed:
        return "Nobody stands out, so nobody is blamed."
    told = [f"{place(blame.entity)} (score {blame.score:g}, margin {blame.margin:g})" for blame in diagnosis.blamed]
    first = diagnosis.blamed[0].entity
    way = diagnosis.clears.get(first, "")
    return full_stop(f"Suspected: {listed(told)}") + (
        full_stop(f" What would clear {place(first)}: {way}") if way else ""
    )


def decision(made: Decision, runbook: Runbook | None) -> str:
    """Tell what was decided and why, also when a guard held it."""
    title = f"“{runbook.title}”" if runbook else "no runbook"
    if made.runbook is None:
        return full_stop(f"Decided to do nothing: {made.why}")
    if made.held_by:
        return full_stop(f"Chose {title} but did not start it: {made.why}")
    return full_stop(f"Started {title}: {made.why}")


def proposed(made: Decision, runbook: Runbook) -> str:
    """Tell that a runbook waits for a person."""
    return full_stop(f"Proposed “{runbook.title}” and waits for a person: {made.why}")


def approved(by: str, runbook: Runbook) -> str:
    """Tell that a person let a proposal start."""
    return f"{by} approved “{runbook.title}”."


def rejected(by: str, runbook: Runbook, why: str = "") -> str:
    """Tell that a person turned a proposal down."""
    return full_stop(f"{by} rejected “{runbook.title}”" + (f": {why}" if why else ""))


def step_done(spec: StepSpec, facts: Mapping[str, object]) -> str:
    """Tell that a runbook step was done."""
    return full_stop(spec.words("done", facts))


def step_failed(spec: StepSpec, facts: Mapping[str, object]) -> str:
    """Tell that a runbook step failed."""
    return full_stop(spec.words("failed", facts))


def ended(runbook: Runbook, state: str, outcome: str) -> str:
    """Tell how an execution ended."""
    return full_stop(f"“{runbook.title}” {state}: {outcome}")


def paused(by: str, runbook: Runbook) -> str:
    """Tell that a person paused an execution."""
    return f"{by} paused “{runbook.title}” before its next step."


def unpaused(by: str, runbook: Runbook) -> str:
    """Tell that a person let an execution go on."""
    return f"{by} let “{runbook.title}” go on."


def stopped(by: str, runbook: Runbook) -> str:
    """Tell that a person stopped an execution."""
    return f"{by} stopped “{runbook.title}”."


def stopped_after(by: str, runbook: Runbook) -> str:
    """Tell that a person ends an execution behind the step under way."""
    return f"{by} stops “{runbook.title}” behind the step under way."


def taken_back(by: str, runbook: Runbook) -> str:
    """Tell that a person has an execution taken back."""
    return f"{by} has what “{runbook.title}” did taken back, last step first."


def not_taken_back(by: str, why: str = "") -> str:
    """Tell that a person does not agree that an execution is taken back."""
    return full_stop(f"{by} does not agree to take it back" + (f": {why}" if why else ""))


def nodes_chosen(choice: NodeChoice) -> str:
    """Tell which nodes were chosen, or what is missing."""
    if choice.complete:
        return full_stop(f"Chose {listed(choice.nodes)}: {choice.why}")
    return full_stop(f"Could not choose nodes yet: {choice.why}")


def quarantined(node: str, reason: str) -> str:
    """Tell that a node was taken out of training."""
    about = f"node {node} "
    told = f", which {reason.removeprefix(about)}" if reason.startswith(about) else f": {reason}"
    return full_stop(f"Quarantined node {node}{told}")


def drained(nodes: Sequence[str], reason: str, owner: str) -> str:
    """Tell that nodes were drained at the scheduler by somebody else."""
    who = f" by {owner}" if owner else ""
    why = f" ({reason})" if reason else ""
    several = "are" if len(nodes) > 1 else "is"
    return full_stop(f"{listed(nodes)} {several} drained at the scheduler{who}{why}; Middlewatch leaves that alone")


def released(node: str, to: str, by: str) -> str:
    """Tell that a node may be used again."""
    return f"{by} released node {node}, which is {to} now."


def launched(attempt: int, nodes: Sequence[str], resume_step: int) -> str:
    """Tell that an attempt was launched."""
    start = f"from step {number(resume_step)}" if resume_step else "from the start"
    return f"Launched attempt {attempt} on {listed(nodes)} {start}."


def forestalled(attempt: int, nodes: Sequence[str], resume_step: int) -> str:
    """Tell that the scheduler had begun an attempt from its queue before it was asked for."""
    start = f"from step {number(resume_step)}" if resume_step else "from the start"
    return f"Attempt {attempt} had begun by itself on {listed(nodes)} {start}, and goes on."


def attempt_ended(attempt: int, reason: str, last_step: int | None) -> str:
    """Tell that an attempt ended."""
    where = f" at step {number(last_step)}" if last_step is not None else ""
    return f"Attempt {attempt} ended{where}: {reason.replace('_', ' ')}."


def first_step(attempt: int, step: int, seconds: float) -> str:
    """Tell that an attempt trains, `seconds` after its launch."""
    return f"Attempt {attempt} made its first step, {number(step)}, {duration(seconds)} after its launch."


def caught_up(attempt: int, step: int, high_water: int, seconds: float) -> str:
    """Tell that the run is further than ever, `seconds` after its last progress."""
    return (
        f"Attempt {attempt} reached step {number(step)}, beyond the earlier {number(high_water)}, "
        f"{duration(seconds)} after the last progress."
    )


def mitigated(run: str) -> str:
    """Tell that the run goes on while the cause may remain."""
    return f"Run {run} makes new steps again."


def resolved(run: str | None, why: str) -> str:
    """Tell that an incident is over."""
    return full_stop(f"Resolved for run {run}: {why}" if run else f"Resolved: {why}")


def losses(cost: Losses) -> str:
    """Tell what the fault cost."""
    return (
        f"Lost {count(cost.steps, 'step')}, {duration(cost.seconds)} and "
        f"{gpu_hours(cost.gpu_hours)} GPU-hours ({cost.confidence})."
    )


def acknowledged(by: str) -> str:
    """Tell that a person looks after the incident."""
    return f"{by} acknowledged the incident."


def held(run: str, by: str) -> str:
    """Tell that a person keeps automation off a run."""
    return f"{by} put run {run} on hold; automation only watches it."


def resumed(run: str, by: str) -> str:
    """Tell that automation may act on a run again."""
    return f"{by} lifted the hold of run {run}."


def completed(run: str, step: int | None) -> str:
    """Tell that a run has reached its end."""
    return f"Run {run} completed" + (f" at step {number(step)}." if step is not None else ".")
