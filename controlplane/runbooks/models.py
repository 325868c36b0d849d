"""Durable runbook executions: the database owns the work, Celery wakes it up."""

from django.db import models

from controlplane.runs.leases import Leased
from controlplane.runs.models import Mode


class ExecutionState(models.TextChoices):
    """Life of an execution; the last five are final, but what ended may still be undone."""

    PROPOSED = "proposed"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    UNDOING = "undoing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    REJECTED = "rejected"
    UNDONE = "undone"


class Definition(models.Model):
    """A runbook as it was when it was first used; never changed, so that a past night can be explained."""

    digest = models.CharField(max_length=64, unique=True, help_text="of what it means, whatever its layout")
    runbook = models.CharField(max_length=64, db_index=True)
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="its file")
    documents = models.JSONField(default=dict, help_text="text by file: all that is needed to read it again")
    kept_at = models.DateTimeField()


class Execution(Leased):
    """One use of a runbook on one incident."""

    runbook = models.CharField(max_length=64)
    version = models.PositiveIntegerField()
    digest = models.CharField(max_length=64, blank=True, help_text="of the definition that it began with")
    incident = models.ForeignKey("incidents.Incident", on_delete=models.PROTECT, related_name="executions")
    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="executions")
    attempt = models.PositiveIntegerField(help_text="the attempt that it was started for")
    state = models.CharField(max_length=16, choices=ExecutionState, default=ExecutionState.RUNNING)
    step_index = models.PositiveIntegerField(default=0)
    context = models.JSONField(default=dict, help_text="what earlier steps found out")
    wake_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    outcome = models.TextField(blank=True)
    key = models.CharField(max_length=200, unique=True, help_text="one execution per incident and attempt")
    held_by = models.CharField(max_length=100, blank=True, help_text="what keeps it from going on, empty when nothing")
    paused_by = models.CharField(max_length=150, blank=True)
    approved_by = models.CharField(max_length=310, blank=True, help_text="one name, or two where two had to agree")
    stop_after_by = models.CharField(max_length=150, blank=True, help_text="who asked to end it behind this step")
    stopped_by = models.CharField(max_length=150, blank=True, help_text="who ended it; empty when it ended by itself")
    undo_by = models.CharField(max_length=310, blank=True, help_text="who asked to take back what it did")
    still_since = models.DateTimeField(null=True, help_text="held or paused since; limits do not run meanwhile")

    class Meta:
        indexes = [models.Index(fields=["state", "wake_at"], name="execution_state_wake")]


class StepRun(models.Model):
    """One try of one step: its intent is written before its effect."""

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=64)
    try_number = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=16, help_text="intended, waiting, done, skipped, failed or undone")
    undo = models.BooleanField(default=False, help_text="takes back what the earlier tries of the step did")
    intent = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    sentence = models.TextField(blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)

    class Meta:
        ordering = ["index", "try_number"]
        constraints = [models.UniqueConstraint(fields=["execution", "index", "try_number"], name="step_try_once")]


class ApprovalState(models.TextChoices):
    """Life of one question to people; all but the first are final."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    LAPSED = "lapsed"
    STALE = "stale"
    WITHDRAWN = "withdrawn"


class Approval(models.Model):
    """One question to people: may this be done? It shows what would be done, and stands only for a time.

    `world` is what the question rests on; an answer to a world that has changed is none.
    """

    class Purpose(models.TextChoices):
        """What a yes lets happen."""

        START = "start"
        STEP = "step"
        UNDO = "undo"

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="approvals")
    purpose = models.CharField(max_length=16, choices=Purpose)
    step = models.CharField(max_length=64, blank=True, help_text="the step that asks; empty before the first")
    why = models.TextField()
    will = models.JSONField(default=list, help_text="what every step still to come would do, a sentence each")
    world = models.JSONField(default=dict)
    asked_at = models.DateTimeField()
    until = models.DateTimeField()
    persons = models.PositiveSmallIntegerField(default=1, help_text="how many different people have to agree")
    state = models.CharField(max_length=16, choices=ApprovalState, default=ApprovalState.OPEN)
    answers = models.JSONField(default=list, help_text="who said what, when and why")
    settled_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["state", "until"], name="approval_state_until")]
        constraints = [
            models.UniqueConstraint(fields=["execution"], condition=models.Q(state="open"), name="approval_open_once")
        ]


class Bucket(models.Model):
    """A durable token bucket (methods 8): its spending survives every restart."""

    name = models.CharField(max_length=100, unique=True, help_text="run:<id> or fleet")
    tokens = models.FloatField()
    refilled_at = models.DateTimeField()


class BucketSpend(models.Model):
    """One token taken, keyed so that a retry takes no second one."""

    bucket = models.ForeignKey(Bucket, on_delete=models.CASCADE, related_name="spends")
    key = models.CharField(max_length=200, unique=True)
    at = models.DateTimeField()
    emptied = models.BooleanField(default=False, help_text="it was the last one")


class RunbookMode(models.Model):
    """How far a person lets a runbook go, below the run's own switch; no row: as its file says."""

    runbook = models.CharField(max_length=64)
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.CASCADE, related_name="runbook_modes")
    mode = models.CharField(max_length=16, choices=Mode)
    by = models.CharField(max_length=150)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["runbook", "run"], name="runbook_mode_once", nulls_distinct=False)
        ]


class Skip(models.Model):
    """Trouble that a person told automation to leave alone: found while automation was off, or the breaker open."""

    incident = models.ForeignKey("incidents.Incident", on_delete=models.CASCADE, related_name="skips")
    attempt = models.PositiveIntegerField(help_text="a later attempt is answered again")
    by = models.CharField(max_length=150)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["incident", "attempt"], name="skip_once")]
