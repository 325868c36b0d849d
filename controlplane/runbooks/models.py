"""Durable runbook executions: the database owns the work, Celery wakes it up."""

from django.db import models


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


class Execution(models.Model):
    """One use of a runbook on one incident."""

    runbook = models.CharField(max_length=64)
    version = models.PositiveIntegerField()
    incident = models.ForeignKey("incidents.Incident", on_delete=models.PROTECT, related_name="executions")
    run = models.ForeignKey("runs.Run", on_delete=models.PROTECT, related_name="executions")
    attempt = models.PositiveIntegerField(help_text="the attempt that it was started for")
    state = models.CharField(max_length=16, choices=ExecutionState, default=ExecutionState.RUNNING)
    step_index = models.PositiveIntegerField(default=0)
    context = models.JSONField(default=dict, help_text="what earlier steps found out")
    owner = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0, help_text="grows with each claim; an older claim writes nothing")
    wake_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    outcome = models.TextField(blank=True)
    key = models.CharField(max_length=200, unique=True, help_text="one execution per incident and attempt")


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
