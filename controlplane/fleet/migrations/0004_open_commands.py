"""An index of the commands that are open, which somebody looks for each second."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Add it; a fleet's commands of a year are indexed in a moment."""

    dependencies = [("fleet", "0003_scheduler_words")]

    operations = [
        migrations.AddIndex(
            model_name="command",
            index=models.Index(
                condition=models.Q(("state__in", ("pending", "leased", "running"))),
                fields=["deadline"],
                name="command_open",
            ),
        ),
    ]
