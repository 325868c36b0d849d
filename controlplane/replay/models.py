"""Replays that people asked for from the page of an incident."""

from django.db import models
from django.db.models import Q


class RerunState(models.TextChoices):
    """Where a rerun stands; the last two are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


UNFINISHED = (RerunState.QUEUED, RerunState.RUNNING)


class Rerun(models.Model):
    """One question: what would today's rules have done about this incident?

    The replay itself happens in a database of its own; this row is all that it
    leaves in the live one.
    """

    incident = models.ForeignKey("incidents.Incident", on_delete=models.CASCADE, related_name="reruns")
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=RerunState, default=RerunState.QUEUED)
    overrides = models.JSONField(default=dict, help_text="settings by name, as the run's own, and its mode")
    since = models.DateTimeField(help_text="where the recording begins; zero of the report's times")
    until = models.DateTimeField(help_text="where it ends")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    events = models.PositiveIntegerField(null=True, help_text="how many were recorded")
    report = models.JSONField(null=True, help_text="docs/replay.md, without its chronicle")
    why = models.TextField(blank=True, help_text="what went wrong, a sentence for a person")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["incident"], condition=Q(state__in=UNFINISHED), name="rerun_one_at_a_time"),
            models.UniqueConstraint(fields=["state"], condition=Q(state=RerunState.RUNNING), name="rerun_one_running"),
        ]
