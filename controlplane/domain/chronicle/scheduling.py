"""What is told of dealings with a scheduler; one sentence each, with its full stop."""

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.fleet.reconcile import Ask, Verdict

_DEEDS = {
    Ask.DRAIN: "Asked the scheduler to place nothing more on node {}",
    Ask.RESUME: "Asked the scheduler to take node {} back",
    Ask.PROVE: "Asked the agent of node {} to prove that no rank process is left",
}
_VAIN = {"nodes.drain": "drain", "nodes.resume": "take back", "ranks.stop": "vouch for"}


def asked(verdict: Verdict) -> str:
    """Tell what was asked about a node on which ledger and scheduler differ, and why."""
    deed = _DEEDS[verdict.ask] if verdict.ask else "Left node {} as it is"
    return full_stop(f"{deed.format(verdict.node)}: {verdict.why}")


def asked_in_vain(kind: str, node: str, why: str) -> str:
    """Tell that a request about a node was not carried out; the difference stands and is looked at again."""
    return full_stop(f"Could not {_VAIN.get(kind, kind)} node {node}: {why}")


def cancelled(run: str, job: str, by: str) -> str:
    """Tell that a person ended the job of a run, and what that means for automation."""
    return full_stop(
        f"Job {job} of run {run} was cancelled, so the run is held in the name of {by} until somebody lifts that"
    )
