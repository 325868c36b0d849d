"""The node ledger: every move of a node's state, append-only."""

from django.db import models


class LedgerEntry(models.Model):
    """One move of a node, with evidence, actor, time and incident (L-02)."""

    node = models.ForeignKey("fleet.Node", on_delete=models.PROTECT, related_name="ledger")
    at = models.DateTimeField()
    from_state = models.CharField(max_length=16)
    to_state = models.CharField(max_length=16)
    reason = models.TextField()
    evidence = models.JSONField(default=list)
    actor_kind = models.CharField(max_length=16)
    actor = models.CharField(max_length=150, blank=True)
    incident_id = models.BigIntegerField(null=True)
    strike = models.BooleanField(default=False, help_text="counts against the node")
    key = models.CharField(max_length=200, null=True, unique=True)

    class Meta:
        ordering = ["-at", "-id"]


class Freeze(models.Model):
    """A time in which automation takes no node out; it ends by itself."""

    by = models.CharField(max_length=150, unique=True, help_text="the execution that asked for it")
    why = models.TextField()
    at = models.DateTimeField()
    until = models.DateTimeField()
