"""Ingest as a process of its own: `uvicorn controlplane.ingest.asgi:application`."""

import os

import django

from controlplane.settings.boot import refuse_unfit

refuse_unfit()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")
django.setup()

from controlplane.ingest.app import application  # noqa: E402

__all__ = ["application"]
