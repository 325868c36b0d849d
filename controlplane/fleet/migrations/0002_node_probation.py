"""Nodes that came back from quarantine are on probation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial")]

    operations = [
        migrations.AddField(
            "node",
            "probation_until",
            models.DateTimeField(null=True, help_text="back from quarantine: used last, strikes count double"),
        )
    ]
