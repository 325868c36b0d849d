"""Beat's Celery application: it names tasks and never runs one, so it loads none of the code behind them.

`controlplane.celery` serves beat as well; loading every app takes it three times as long and twice the memory.
"""

import logging.config
import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging
from django.conf import settings

from controlplane.settings.boot import refuse_unfit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")

app = Celery("middlewatch-beat", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")


@setup_logging.connect
def _log_as_django_does(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


@beat_init.connect
def _refuse_to_boot_unfit(**_: Any) -> None:
    refuse_unfit()
