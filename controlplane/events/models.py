"""The event log: every event that agents sent, partitioned by day of receipt."""

from django.db import models


class Event(models.Model):
    """One event as it arrived; `id` grows in the order of commits (see log.append)."""

    pk = models.CompositePrimaryKey("received_at", "id")
    id = models.BigIntegerField()
    received_at = models.DateTimeField()
    node = models.TextField()
    incarnation = models.TextField()
    seq = models.BigIntegerField()
    at_ms = models.BigIntegerField(help_text="the sender's clock")
    kind = models.TextField()
    run = models.TextField(null=True)
    attempt = models.IntegerField(null=True)
    rank = models.IntegerField(null=True)
    data = models.JSONField(default=dict)

    class Meta:
        managed = False
        db_table = "events_event"
