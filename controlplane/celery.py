"""The Celery application: it wakes owners up, the database owns the work."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, setup_logging

from controlplane.settings.boot import refuse_unfit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")

app = Celery("middlewatch")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _leave_logging_to_django(**_: Any) -> None:
    """Being connected is enough: Celery then installs no handlers of its own."""


@celeryd_init.connect
@beat_init.connect
def _refuse_to_boot_unfit(**_: Any) -> None:
    refuse_unfit()
