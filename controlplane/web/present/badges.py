"""Every state that a page shows, as icon + word + tone; `/styleguide/` lists them all."""

from controlplane.web.present.words import Badge

RUN = {
    "waiting": Badge("clock", "Waiting", "quiet"),
    "running": Badge("check", "Training", "good"),
    "recovering": Badge("alert", "Recovering", "bad"),
    "stopped": Badge("stop", "Stopped", "warn"),
    "completed": Badge("flag", "Completed", "quiet"),
}
ATTEMPT = {
    "starting": Badge("clock", "Starting", "warn"),
    "running": Badge("check", "Running", "good"),
    "exited": Badge("stop", "Ended", "quiet"),
}
INCIDENT = {
    "open": Badge("alert", "Open", "bad"),
    "mitigated": Badge("half", "Mitigated", "warn"),
    "resolved": Badge("check", "Resolved", "good"),
}
SEVERITY = {
    "critical": Badge("alert", "Critical", "bad"),
    "warning": Badge("half", "Warning", "warn"),
    "info": Badge("note", "Info", "quiet"),
}
NODE = {
    "unknown": Badge("question", "Unknown", "quiet", "U"),
    "healthy": Badge("check", "Healthy", "good", "H"),
    "suspect": Badge("alert", "Suspect", "warn", "S"),
    "draining": Badge("down", "Draining", "warn", "D"),
    "quarantined": Badge("cross", "Quarantined", "bad", "Q"),
    "repairing": Badge("wrench", "Repairing", "warn", "R"),
    "proving": Badge("half", "Proving", "warn", "P"),
    "spare": Badge("ring", "Spare", "accent", "+"),
    "retired": Badge("minus", "Retired", "quiet", "–"),
}
STANDSTILL = Badge("alert", "Standing still", "bad")
UNSEEN = Badge("question", "Not seen", "warn")
NEED = {
    "person": Badge("person", "Needs you", "bad"),
    "recovering": Badge("bolt", "Recovers by itself", "accent"),
    "watched": Badge("eye", "Nothing to do yet", "quiet"),
}
LAUNCHER = Badge("bolt", "Launcher", "quiet", "L")
CHECKPOINT = {
    "saving": Badge("clock", "Saving", "quiet"),
    "written": Badge("half", "Written", "warn"),
    "complete": Badge("check", "Complete", "good"),
    "verified": Badge("check", "Verified", "good"),
    "torn": Badge("cross", "Torn", "bad"),
    "failed": Badge("cross", "Failed", "bad"),
    "restored": Badge("flag", "Restored", "accent"),
    "deleted": Badge("minus", "Deleted", "quiet"),
    "pinned": Badge("flag", "Pinned", "accent"),
}
EXECUTION = {
    "proposed": Badge("question", "Waits for approval", "warn"),
    "running": Badge("bolt", "Running", "accent"),
    "waiting": Badge("clock", "Under way", "accent"),
    "paused": Badge("pause", "Paused", "warn"),
    "succeeded": Badge("check", "Succeeded", "good"),
    "failed": Badge("cross", "Failed", "bad"),
    "stopped": Badge("stop", "Stopped", "quiet"),
    "rejected": Badge("minus", "Rejected", "quiet"),
    "undoing": Badge("undo", "Taking back", "accent"),
    "undone": Badge("undo", "Taken back", "quiet"),
}
STEP = {
    "todo": Badge("ring", "To do", "quiet"),
    "intended": Badge("bolt", "Running", "accent"),
    "waiting": Badge("clock", "Waiting", "accent"),
    "done": Badge("check", "Done", "good"),
    "skipped": Badge("minus", "Skipped", "quiet"),
    "failed": Badge("cross", "Failed", "bad"),
    "undone": Badge("undo", "Taken back", "quiet"),
}
COMMAND = {
    "pending": Badge("clock", "Waits for the agent", "quiet"),
    "leased": Badge("down", "Handed out", "accent"),
    "running": Badge("bolt", "Running", "accent"),
    "succeeded": Badge("check", "Succeeded", "good"),
    "failed": Badge("cross", "Failed", "bad"),
    "refused": Badge("lock", "Refused by the node", "bad"),
    "expired": Badge("question", "No answer", "warn"),
}
EFFECT = {
    "watches": Badge("eye", "Only watches", "quiet"),
    "looks": Badge("eye", "Looks", "quiet"),
    "acts": Badge("bolt", "Acts", "warn"),
}
DISABLED = Badge("minus", "Switched off", "quiet")
SWITCH = {
    "on": Badge("check", "Automation on", "good"),
    "open": Badge("alert", "Breaker open", "warn"),
    "off": Badge("power", "Automation off", "bad"),
}
MODE = {
    "watch": Badge("eye", "Watch", "quiet"),
    "ask": Badge("question", "Ask", "warn"),
    "autopilot": Badge("bolt", "Autopilot", "good"),
}
RANK = {
    "starting": Badge("clock", "Starting", "warn"),
    "stopped": Badge("pause", "Stopped", "bad"),
    "done": Badge("flag", "Done", "quiet"),
    "running": Badge("check", "Running", "good"),
    "exited": Badge("stop", "Ended", "quiet"),
    "dead": Badge("cross", "Dead", "bad"),
    "silent": Badge("question", "Silent", "warn"),
}
STAGE = {
    "suspect": Badge("question", "Suspected", "warn"),
    "confirmed": Badge("alert", "Confirmed", "bad"),
    "cleared": Badge("check", "Cleared", "good"),
}
ACT = {
    "proposed": Badge("question", "Proposed", "warn"),
    "done": Badge("check", "Done", "accent"),
}
RERUN = {
    "queued": Badge("clock", "Waits", "quiet"),
    "running": Badge("play", "Replaying", "accent"),
    "done": Badge("check", "Replayed", "good"),
    "failed": Badge("cross", "Failed", "bad"),
}
FAMILIES = {
    "Runs": RUN, "Attempts": ATTEMPT, "Incidents": INCIDENT, "Who has to act": NEED, "Severity": SEVERITY,
    "Nodes": NODE, "Checkpoints": CHECKPOINT, "Executions": EXECUTION, "Runbook steps": STEP,
    "Effects of a step": EFFECT, "Commands": COMMAND, "Switches": SWITCH, "Modes": MODE, "Ranks": RANK,
    "Findings": STAGE, "Acts": ACT, "Replays": RERUN,
    "Beside a state": {"still": STANDSTILL, "unseen": UNSEEN, "launcher": LAUNCHER, "disabled": DISABLED},
}  # fmt: skip


def of(family: dict[str, Badge], state: str) -> Badge:
    """Find the badge of a state; one that we do not know is shown as it came."""
    return family.get(state) or Badge("question", state or "unknown", "quiet", "?")
