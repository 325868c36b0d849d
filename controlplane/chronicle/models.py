"""The chronicle: append-only, one gap-free numbered stream per subject."""

from django.db import models


class Stream(models.Model):
    """The chronicle of one subject, for example `incident:42`, `run:7` or `fleet`."""

    name = models.CharField(max_length=100, unique=True)
    last_number = models.PositiveIntegerField(default=0)


class Entry(models.Model):
    """One sentence of a chronicle; never changed, a correction is a new entry."""

    stream = models.ForeignKey(Stream, on_delete=models.PROTECT, related_name="entries")
    number = models.PositiveIntegerField(help_text="1, 2, 3 … without gaps inside a stream")
    happened_at = models.DateTimeField(help_text="when the thing told happened")
    recorded_at = models.DateTimeField(help_text="when it was written down")
    kind = models.CharField(max_length=32)
    sentence = models.TextField()
    actor_kind = models.CharField(max_length=16, help_text="person, runbook, detector, agent or system")
    actor = models.CharField(max_length=150, blank=True)
    data = models.JSONField(default=dict)
    corrects = models.ForeignKey("self", null=True, on_delete=models.PROTECT)
    key = models.CharField(max_length=200, null=True, unique=True, help_text="makes a repeated write harmless")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["stream", "number"], name="entry_number_in_stream")]
