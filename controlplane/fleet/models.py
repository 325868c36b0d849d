"""Nodes, the tokens their agents hold, and the commands waiting for them."""

import uuid

from django.db import models


class NodeState(models.TextChoices):
    """Ledger states of a node (L-02); `unknown` until it said hello."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    SUSPECT = "suspect"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    REPAIRING = "repairing"
    PROVING = "proving"
    SPARE = "spare"
    RETIRED = "retired"


class Node(models.Model):
    """A machine that an agent speaks for."""

    name = models.CharField(max_length=100, unique=True)
    state = models.CharField(max_length=16, choices=NodeState, default=NodeState.UNKNOWN)
    state_reason = models.TextField(blank=True)
    state_since = models.DateTimeField()
    state_actor_kind = models.CharField(max_length=16, default="system")
    held = models.BooleanField(default=False, help_text="an operator's hold: automation keeps its hands off")
    head = models.BooleanField(default=False, help_text="runs the launcher, takes no ranks")
    incarnation = models.CharField(max_length=64, blank=True)
    identity = models.CharField(max_length=64, blank=True, help_text="digest of machine id, board serial and GPUs")
    identity_conflict = models.BooleanField(default=False)
    agent_version = models.CharField(max_length=32, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    labels = models.JSONField(default=dict)
    hardware = models.JSONField(default=dict)
    capabilities = models.JSONField(default=list)
    enrolled_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(null=True)
    probation_until = models.DateTimeField(null=True, help_text="back from quarantine: used last, strikes count double")

    def __str__(self) -> str:
        """Return its name."""
        return self.name


class NodeToken(models.Model):
    """Bearer token of one agent; only its hash is stored."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)


class EnrolmentToken(models.Model):
    """Short-lived token of limited uses that buys node tokens."""

    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField()
    revoked_at = models.DateTimeField(null=True)


class CommandState(models.TextChoices):
    """Life of a command; the last four are final."""

    PENDING = "pending"
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    EXPIRED = "expired"


OPEN = (CommandState.PENDING, CommandState.LEASED, CommandState.RUNNING)


class Command(models.Model):
    """Something an agent is asked to do, exactly once by its idempotency key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="commands")
    kind = models.CharField(max_length=32)
    args = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=200, unique=True)
    state = models.CharField(max_length=16, choices=CommandState, default=CommandState.PENDING)
    created_at = models.DateTimeField()
    deadline = models.DateTimeField(help_text="not handed out after this")
    leased_until = models.DateTimeField(null=True)
    lease_count = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=dict, help_text="data of the last command.result event")
    finished_at = models.DateTimeField(null=True)
    execution_id = models.BigIntegerField(null=True, help_text="the execution to wake when it ends")

    class Meta:
        indexes = [
            models.Index(fields=["node", "state"], name="command_node_state"),
            # each second somebody looks for what is open among the commands of years
            models.Index(fields=["deadline"], condition=models.Q(state__in=OPEN), name="command_open"),
        ]


class SchedulerNode(models.Model):
    """The last word of a scheduler on one of its nodes; the node need not be enrolled."""

    launcher = models.CharField(max_length=100, help_text="head node whose agent said it")
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=32)
    reason = models.TextField(blank=True)
    owner = models.CharField(max_length=100, blank=True, help_text="who gave the reason")
    since = models.DateTimeField(help_text="when this state and reason were first told")
    heard_at = models.DateTimeField(help_text="when they were last repeated")
    at_ms = models.BigIntegerField(help_text="by the launcher's clock; an older word changes nothing")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["launcher", "name"], name="scheduler_node_of_launcher")]


class SchedulerJob(models.Model):
    """The last word of a scheduler on one job of a run."""

    launcher = models.CharField(max_length=100, help_text="head node whose agent said it")
    job_id = models.CharField(max_length=100)
    run = models.CharField(max_length=100, help_text="name of the run")
    attempt = models.PositiveIntegerField(null=True, help_text="empty while the job waits for its turn")
    state = models.CharField(max_length=32)
    reason = models.TextField(blank=True)
    by = models.CharField(max_length=100, blank=True, help_text="who ended it")
    nodes = models.JSONField(default=list)
    successors = models.PositiveIntegerField(null=True)
    since = models.DateTimeField(help_text="when this state was first told")
    heard_at = models.DateTimeField(help_text="when it was last repeated")
    at_ms = models.BigIntegerField(help_text="by the launcher's clock; an older word changes nothing")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["launcher", "job_id"], name="scheduler_job_of_launcher")]
        indexes = [models.Index(fields=["run", "heard_at"], name="scheduler_job_run_heard")]
