"""Keep who stood where when stacks were taken."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("incidents", "0003_quiet_and_flapping")]

    operations = [
        migrations.CreateModel(
            name="StackPicture",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "groups",
                    models.JSONField(
                        default=list, help_text="[{words, ranks, count, frames, answered}], the few first"
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pictures", to="incidents.incident"
                    ),
                ),
            ],
            options={
                "ordering": ["attempt"],
                "constraints": [
                    models.UniqueConstraint(fields=("incident", "attempt"), name="picture_once_per_attempt")
                ],
            },
        ),
    ]
