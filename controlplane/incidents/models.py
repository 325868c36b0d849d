"""Incidents and the findings that they group."""

from django.db import models


class IncidentState(models.TextChoices):
    """Mitigated is not resolved (methods 11.11)."""

    OPEN = "open"
    MITIGATED = "mitigated"
    RESOLVED = "resolved"


class Severity(models.TextChoices):
    """How loud an incident is."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Incident(models.Model):
    """One open problem of a run or of the fleet."""

    run = models.ForeignKey("runs.Run", null=True, on_delete=models.CASCADE, related_name="incidents")
    attempt = models.PositiveIntegerField(null=True, help_text="the newest attempt that it is about")
    onset_step = models.BigIntegerField(null=True, help_text="high-water step when it happened")
    klass = models.CharField(max_length=32, db_column="class", help_text="class of wire.md")
    severity = models.CharField(max_length=16, choices=Severity, default=Severity.CRITICAL)
    state = models.CharField(max_length=16, choices=IncidentState, default=IncidentState.OPEN)
    title = models.TextField(help_text="symptom and place, one sentence")
    began_at = models.DateTimeField(help_text="first bad moment")
    opened_at = models.DateTimeField(help_text="first finding, also a suspicion")
    confirmed_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    mitigated_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)
    blamed = models.JSONField(default=list, help_text="[{entity, score, margin}]")
    cleared = models.JSONField(default=list)
    decision = models.JSONField(default=dict, help_text="{runbook, held_by, actions, resume_step}")
    losses = models.JSONField(default=dict, help_text="{steps, seconds, gpu_hours, confidence}: computed, never typed")
    root_cause = models.TextField(blank=True)
    quiet = models.BooleanField(default=False, help_text="silenced: recorded and shown, nobody is woken")
    flapping_until = models.DateTimeField(null=True, help_text="it comes and goes: stays open until then")
    refuted = models.JSONField(default=list, help_text="entities that the same failure without them cleared")
    explained_by = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="explained")

    class Meta:
        ordering = ["-opened_at"]
        indexes = [models.Index(fields=["state", "run"], name="incident_state_run")]


class Finding(models.Model):
    """A detector's judgement, kept with the numbers that tripped it.

    `key` is the detector's own key behind the run's number, so that two runs never
    share a finding.
    """

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="findings")
    key = models.CharField(max_length=200)
    detector = models.CharField(max_length=8)
    klass = models.CharField(max_length=32, db_column="class")
    stage = models.CharField(max_length=16, help_text="suspect, confirmed or cleared")
    entity = models.CharField(max_length=150)
    attempt = models.PositiveIntegerField(null=True)
    severity = models.CharField(max_length=16, choices=Severity, default=Severity.CRITICAL)
    sentence = models.TextField(blank=True)
    began_at = models.DateTimeField()
    found_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    cleared_at = models.DateTimeField(null=True)
    evidence = models.JSONField(default=list, help_text="[{at, weight, entity, text, kind, bound_s}]")
    facts = models.JSONField(default=dict)
    rule = models.CharField(max_length=64, blank=True, help_text="the signature that spoke, if one did")
    mode = models.CharField(max_length=16, default="act", help_text="how far the run lets the rule go")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["incident", "key"], name="finding_once_in_incident")]


class ActRecord(models.Model):
    """Something automation did or proposed (domain.recovery.acts); a row is never changed."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="acts", null=True)
    at = models.DateTimeField()
    do = models.CharField(max_length=16)
    run = models.CharField(max_length=100, null=True)
    node = models.CharField(max_length=100, null=True)
    args = models.JSONField(default=dict)
    proposed = models.BooleanField(default=False)
    why = models.TextField(blank=True)
    key = models.CharField(max_length=250, unique=True)

    class Meta:
        ordering = ["at", "pk"]


class StackPicture(models.Model):
    """Where the ranks of an attempt stood when somebody last looked (domain.diagnosis.stacks)."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="pictures")
    attempt = models.PositiveIntegerField()
    at = models.DateTimeField()
    groups = models.JSONField(default=list, help_text="[{words, ranks, count, frames, answered}], the few first")

    class Meta:
        ordering = ["attempt"]
        constraints = [models.UniqueConstraint(fields=["incident", "attempt"], name="picture_once_per_attempt")]


class Observation(models.Model):
    """What a rule in mode `observe` would have said; nothing follows from it."""

    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, null=True, related_name="observations")
    rule = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    klass = models.CharField(max_length=32, db_column="class")
    stage = models.CharField(max_length=16)
    entity = models.CharField(max_length=150)
    attempt = models.PositiveIntegerField(null=True)
    sentence = models.TextField(blank=True)
    at = models.DateTimeField()
    evidence = models.JSONField(default=list)
    facts = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["run", "key", "stage"], name="observation_once_per_stage")]


class Silence(models.Model):
    """A time in which nobody is woken about a run, or about anything; it ends by itself."""

    run = models.ForeignKey("runs.Run", null=True, on_delete=models.CASCADE, related_name="silences")
    by = models.CharField(max_length=150)
    begins_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        ordering = ["-until"]
