"""The Celery application: it wakes owners up, the database owns the work."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")

app = Celery("middlewatch")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
