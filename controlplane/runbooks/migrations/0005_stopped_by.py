"""Remember who ended an execution; what ended before that was asked stays with people."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

UNKNOWN = "somebody"


def keep_with_people(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Nobody knows any more who ended them, and an upgrade is no reason to act again."""
    apps.get_model("runbooks", "Execution").objects.filter(state="stopped").update(stopped_by=UNKNOWN)


class Migration(migrations.Migration):
    """Add the name and fill it where it was not asked."""

    dependencies = [("runbooks", "0004_modes_and_skips")]

    operations = [
        migrations.AddField(
            model_name="execution",
            name="stopped_by",
            field=models.CharField(
                blank=True, default="", help_text="who ended it; empty when it ended by itself", max_length=150
            ),
            preserve_default=False,
        ),
        migrations.RunPython(keep_with_people, migrations.RunPython.noop),
    ]
