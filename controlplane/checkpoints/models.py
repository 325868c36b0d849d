"""The checkpoint ledger: what was saved, and whether it can be trusted."""

from django.db import models


class CheckpointState(models.TextChoices):
    """States of the wire's `checkpoint` event."""

    SAVING = "saving"
    WRITTEN = "written"
    COMPLETE = "complete"
    VERIFIED = "verified"
    TORN = "torn"
    FAILED = "failed"
    RESTORED = "restored"
    DELETED = "deleted"
    PINNED = "pinned"


class Checkpoint(models.Model):
    """One saved state of a run in one tier."""

    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="checkpoints")
    step = models.BigIntegerField()
    tier = models.CharField(max_length=16, default="persistent")
    path = models.TextField()
    state = models.CharField(max_length=16, choices=CheckpointState)
    why = models.TextField(blank=True, help_text="what the verdict rests on")
    attempt = models.PositiveIntegerField(default=0)
    bytes = models.BigIntegerField(null=True)
    files = models.PositiveIntegerField(null=True)
    expected_files = models.PositiveIntegerField(null=True)
    blocking_ms = models.FloatField(null=True)
    duration_ms = models.FloatField(null=True)
    began_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    verified_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-step"]
        constraints = [models.UniqueConstraint(fields=["run", "tier", "step", "path"], name="checkpoint_once")]
