"""Whom to tell, what there is to tell, and what became of each message.

Whoever has something to tell writes one `Call` in its own transaction and is done. One
planner at a time (`planning`) turns calls into escalations and messages; senders claim
messages and write down how each try ended.
"""

from django.db import models
from django.db.models import Q


class Transport(models.Model):
    """A way to reach somebody."""

    name = models.CharField(max_length=60, unique=True)
    kind = models.CharField(max_length=16)
    person = models.CharField(max_length=150, blank=True, help_text="who answers for its acknowledge links")
    place = models.CharField(max_length=300, help_text="where it leads, without secrets")
    settings = models.JSONField(default=dict)
    secret = models.TextField(help_text="encrypted JSON; never shown again")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["name"]


class Rule(models.Model):
    """Who is told of which calls."""

    name = models.CharField(max_length=60, unique=True)
    enabled = models.BooleanField(default=True)
    severity = models.CharField(max_length=16, help_text="the least severity that it wants")
    takes = models.CharField(max_length=8, help_text="loud, quiet or both")
    runs = models.JSONField(default=list, help_text="names; empty for all, the fleet included")
    classes = models.JSONField(default=list)
    hours = models.CharField(max_length=300, blank=True, help_text="as Mon-Fri 22:00-06:00; empty for all hours")
    time_zone = models.CharField(max_length=64, default="UTC")
    remind_s = models.FloatField(default=0, help_text="call again so long after an acknowledgement; 0 for never")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["name"]


class RuleStep(models.Model):
    """One step of a rule's escalation, so long after the step before it."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveSmallIntegerField()
    after_s = models.FloatField()
    transports = models.ManyToManyField(Transport, related_name="steps")

    class Meta:
        ordering = ["rule", "index"]
        constraints = [models.UniqueConstraint(fields=["rule", "index"], name="rule_step_once")]


class Call(models.Model):
    """Something that people are to be told; written once per key, in the transaction of what happened."""

    subject = models.CharField(max_length=100, help_text="as incident:12")
    key = models.CharField(max_length=250, unique=True)
    run = models.CharField(max_length=100, blank=True)
    klass = models.CharField(max_length=32, blank=True, db_column="class")
    severity = models.CharField(max_length=16)
    loud = models.BooleanField()
    escalates = models.BooleanField(help_text="the steps after the first follow until somebody acknowledges")
    called_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    ended_at = models.DateTimeField(null=True)
    fresh = models.BooleanField(default=True, help_text="the planner has not seen its last change")
    rules = models.PositiveSmallIntegerField(null=True, help_text="how many rules wanted it")

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["subject"], name="call_subject"),
            models.Index(fields=["id"], condition=Q(fresh=True), name="call_fresh"),
        ]


class Escalation(models.Model):
    """How far a rule has gone for a call; without `next_at` it rests."""

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="escalations")
    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="escalations")
    next_step = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["call", "rule"], name="escalation_once")]
        indexes = [models.Index(fields=["next_at"], name="escalation_due")]


class MessageState(models.TextChoices):
    """Life of a message; the last three are final."""

    PENDING = "pending"
    SENDING = "sending"
    FAILED = "failed"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"
    SUPPRESSED = "suppressed"


class MessageKind(models.TextChoices):
    """What a message says of its calls."""

    CALL = "call"
    ACKNOWLEDGED = "acknowledged"
    ENDED = "ended"
    TEST = "test"


class Message(models.Model):
    """One message of the outbox; `next_at` is also the lease of who sends it."""

    transport = models.ForeignKey(Transport, null=True, on_delete=models.SET_NULL, related_name="messages")
    sent_by = models.CharField(max_length=60, help_text="name of the transport, which may be gone by now")
    kind = models.CharField(max_length=16, choices=MessageKind, default=MessageKind.CALL)
    loud = models.BooleanField(default=True)
    key = models.CharField(max_length=64, unique=True, help_text="the receiver may tell a repetition by it")
    thread = models.CharField(max_length=150, help_text="what belongs together at the receiver")
    state = models.CharField(max_length=16, choices=MessageState, default=MessageState.PENDING)
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    tried_at = models.DateTimeField(null=True, help_text="when the last try began")
    fence = models.PositiveIntegerField(default=0, help_text="grows with each claim; an older claim writes nothing")
    text = models.CharField(max_length=300, blank=True, help_text="first line as it was sent")
    why = models.CharField(max_length=300, blank=True)
    proof = models.JSONField(default=dict, help_text="what the receiver answered")
    ended_at = models.DateTimeField(null=True, help_text="when its state became final")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["transport", "loud"], condition=Q(state="pending", kind="call"), name="message_one_gathers"
            )
        ]
        indexes = [
            models.Index(
                fields=["next_at"], condition=Q(state__in=["pending", "sending", "failed"]), name="message_due"
            ),
            models.Index(fields=["thread"], name="message_thread"),
        ]


class Mention(models.Model):
    """That a message tells of a call, and by which step of which rule."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="mentions")
    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="mentions")
    rule = models.CharField(max_length=60, blank=True)
    step = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "call"], name="mention_once")]


class Window(models.Model):
    """Maintenance: nobody is told of these runs (none named: of anything) until it ends by itself."""

    runs = models.JSONField(default=list)
    begins_at = models.DateTimeField()
    until = models.DateTimeField(db_index=True)
    why = models.CharField(max_length=300, blank=True)
    by = models.CharField(max_length=150)

    class Meta:
        ordering = ["begins_at", "pk"]


class DeadMan(models.Model):
    """An outside address that raises the alarm when our sign of life stays away."""

    name = models.CharField(max_length=60, unique=True)
    place = models.CharField(max_length=300)
    secret = models.TextField(help_text="encrypted JSON with its address")
    every_s = models.FloatField()
    next_at = models.DateTimeField()
    last_at = models.DateTimeField(null=True, help_text="last try")
    last_ok_at = models.DateTimeField(null=True)
    why = models.CharField(max_length=300, blank=True, help_text="why the last sign was withheld or failed")
    fence = models.PositiveIntegerField(default=0)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["name"]
