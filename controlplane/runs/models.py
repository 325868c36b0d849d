"""Runs, their attempts, and the stored state of each run's reducer."""

from django.db import models

from controlplane.runs.leases import Leased


class RunState(models.TextChoices):
    """Where a run stands as a whole."""

    WAITING = "waiting"
    RUNNING = "running"
    RECOVERING = "recovering"
    STOPPED = "stopped"
    COMPLETED = "completed"


class Mode(models.TextChoices):
    """The run's one switch: say, propose, or act inside the guards."""

    WATCH = "watch"
    ASK = "ask"
    AUTOPILOT = "autopilot"


class Run(models.Model):
    """One training goal; the control plane may launch it many times."""

    name = models.CharField(max_length=100, unique=True)
    state = models.CharField(max_length=16, choices=RunState, default=RunState.WAITING)
    mode = models.CharField(max_length=16, choices=Mode, default=Mode.AUTOPILOT)
    held = models.BooleanField(default=False, help_text="an operator's hold outranks automation")
    held_by = models.CharField(max_length=150, blank=True)
    launcher = models.CharField(max_length=100, help_text="name of the head node whose agent launches")
    nodes_wanted = models.PositiveIntegerField()
    gpus_per_node = models.PositiveIntegerField(default=1)
    policy = models.JSONField(default=dict, help_text="overrides of domain.detection.policy.RunPolicy")
    created_at = models.DateTimeField()
    high_water_step = models.BigIntegerField(default=0)
    high_water_at = models.DateTimeField(null=True)


class Automation(models.Model):
    """Whether automation may act: one row for the fleet, one for each run that was ever switched.

    Whoever writes the intent of an act keeps these rows as they are until its commit
    (`automation.share`), so that nothing begins once a switch is off.
    """

    name = models.CharField(max_length=100, unique=True, help_text="run:<id> or fleet")
    run = models.OneToOneField(Run, null=True, on_delete=models.CASCADE, related_name="automation")
    off_at = models.DateTimeField(null=True, help_text="the kill switch: off since")
    off_by = models.CharField(max_length=150, blank=True)
    off_why = models.TextField(blank=True)
    opened_at = models.DateTimeField(null=True, help_text="the breaker: open since")
    opened_why = models.TextField(blank=True)
    counts_since = models.DateTimeField(null=True, help_text="the breaker counts nothing before its last reset")
    processed_at = models.DateTimeField(null=True, help_text="a person last said to answer what is found by now")


class AttemptState(models.TextChoices):
    """Life of one launch."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


class Attempt(models.Model):
    """One launch of a run on a chosen set of nodes."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=AttemptState, default=AttemptState.STARTING)
    nodes = models.JSONField(default=list)
    world_size = models.PositiveIntegerField(default=0)
    scheduler = models.CharField(max_length=16, default="local")
    job_id = models.CharField(max_length=100, blank=True)
    resume_step = models.BigIntegerField(default=0)
    resume_path = models.TextField(blank=True)
    high_water_before = models.BigIntegerField(default=0, help_text="furthest step of the run when it was opened")
    started_at = models.DateTimeField()
    first_step_at = models.DateTimeField(null=True)
    beyond_at = models.DateTimeField(null=True, help_text="first step beyond high_water_before")
    supports = models.JSONField(default=list, help_text="what its workload can do on demand: save_now, …")
    last_step = models.BigIntegerField(null=True)
    last_step_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True, help_text="we stop it: its end is no fault")
    exited_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=16, blank=True)
    exit_code = models.IntegerField(null=True)
    unasked = models.BooleanField(default=False, help_text="it began by itself, as a successor in the queue does")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="attempt_number_in_run")]


class Machine(Leased):
    """Stored state of the one reducer of a run (or of the fleet, `run` empty)."""

    name = models.CharField(max_length=100, unique=True, help_text="run:<id> or fleet")
    run = models.OneToOneField(Run, null=True, on_delete=models.CASCADE, related_name="machine")
    snapshot = models.JSONField(default=dict)
    cursor = models.BigIntegerField(default=0, help_text="id of the last event observed")
    version = models.BigIntegerField(default=0, help_text="grows with each save; memory of another version is stale")
    rested_attempt = models.PositiveIntegerField(
        default=0, help_text="newest attempt whose stop the reducer was told of"
    )
    swept_at = models.DateTimeField(null=True)
    hold = models.TextField(blank=True, help_text="the fleet's reason to hold automation, empty for none")
