"""Durable runbook executions: the database owns the work, Celery wakes it up."""

from django.db import models

from controlplane.runs.leases import Leased


class ExecutionState(models.TextChoices):
    """Life of an execution; the last four are final."""

    PROPOSED = "proposed"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    REJECTED = "rejected"


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
    approved_by = models.CharField(max_length=150, blank=True)
    still_since = models.DateTimeField(null=True, help_text="held or paused since; limits do not run meanwhile")

    class Meta:
        indexes = [models.Index(fields=["state", "wake_at"], name="execution_state_wake")]


class StepRun(models.Model):
    """One try of one step: its intent is written before its effect."""

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=64)
    try_number = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=16, help_text="intended, waiting, done, skipped or failed")
    intent = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    sentence = models.TextField(blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)

    class Meta:
        ordering = ["index", "try_number"]
        constraints = [models.UniqueConstraint(fields=["execution", "index", "try_number"], name="step_try_once")]


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
