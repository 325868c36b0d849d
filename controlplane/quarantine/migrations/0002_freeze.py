from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quarantine", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Freeze",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "by",
                    models.CharField(help_text="the execution that asked for it", max_length=150, unique=True),
                ),
                ("why", models.TextField()),
                ("at", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
        ),
    ]
