"""Keep what a workload said that it can do on demand."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_automation")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="supports",
            field=models.JSONField(default=list, help_text="what its workload can do on demand: save_now, …"),
        ),
    ]
