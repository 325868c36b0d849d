"""The last words of schedulers on their nodes and jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_node_probation")]

    operations = [
        migrations.CreateModel(
            name="SchedulerNode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("launcher", models.CharField(max_length=100, help_text="head node whose agent said it")),
                ("name", models.CharField(max_length=100)),
                ("state", models.CharField(max_length=32)),
                ("reason", models.TextField(blank=True)),
                ("owner", models.CharField(max_length=100, blank=True, help_text="who gave the reason")),
                ("since", models.DateTimeField(help_text="when this state and reason were first told")),
                ("heard_at", models.DateTimeField(help_text="when they were last repeated")),
                ("at_ms", models.BigIntegerField(help_text="by the launcher's clock; an older word changes nothing")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("launcher", "name"), name="scheduler_node_of_launcher")
                ]
            },
        ),
        migrations.CreateModel(
            name="SchedulerJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("launcher", models.CharField(max_length=100, help_text="head node whose agent said it")),
                ("job_id", models.CharField(max_length=100)),
                ("run", models.CharField(max_length=100, help_text="name of the run")),
                ("attempt", models.PositiveIntegerField(null=True, help_text="empty while the job waits for its turn")),
                ("state", models.CharField(max_length=32)),
                ("reason", models.TextField(blank=True)),
                ("by", models.CharField(max_length=100, blank=True, help_text="who ended it")),
                ("nodes", models.JSONField(default=list)),
                ("successors", models.PositiveIntegerField(null=True)),
                ("since", models.DateTimeField(help_text="when this state was first told")),
                ("heard_at", models.DateTimeField(help_text="when it was last repeated")),
                ("at_ms", models.BigIntegerField(help_text="by the launcher's clock; an older word changes nothing")),
            ],
            options={
                "indexes": [models.Index(fields=["run", "heard_at"], name="scheduler_job_run_heard")],
                "constraints": [
                    models.UniqueConstraint(fields=("launcher", "job_id"), name="scheduler_job_of_launcher")
                ],
            },
        ),
    ]
