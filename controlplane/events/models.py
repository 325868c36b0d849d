"""The event log: every event that agents sent, partitioned by day of receipt.

The tables are made by hand in the first migration, since Django knows neither
partitions nor multiranges; the models let it read them and empty them in tests.
"""

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
        db_table = "events_event"


class Stream(models.Model):
    """What has been received of one life of an agent; read and written by streams.py alone."""

    pk = models.CompositePrimaryKey("node", "incarnation")
    node = models.TextField()
    incarnation = models.TextField()
    base = models.BigIntegerField(help_text="first number of the first batch that came")
    identity = models.TextField(default="", help_text="digest of the machine that said hello")
    holder = models.BooleanField(default=False, help_text="speaks for the node's name now")
    superseded = models.BooleanField(default=False, help_text="a newer life has said hello")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "events_stream"
