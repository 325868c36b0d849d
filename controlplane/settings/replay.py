"""Settings of a replay: the pipeline alone, on a database of its own, with nobody looking on.

No pages are installed, so the live layer has nobody to render for and sends nothing;
nothing here needs Redis or a secret.
"""

from controlplane.settings.base import *  # noqa: F403
from controlplane.settings.base import DATABASES
from controlplane.settings.env import LogFormat
from controlplane.settings.logs import configure

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "controlplane.access",
    "controlplane.live",
    "controlplane.chronicle",
    "controlplane.events",
    "controlplane.fleet",
    "controlplane.runs",
    "controlplane.checkpoints",
    "controlplane.quarantine",
    "controlplane.incidents",
    "controlplane.runbooks",
    "controlplane.watch",
    "controlplane.analytics",
    "controlplane.replay",
]
MIDDLEWARE = []
TEMPLATES = []
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
LOGGING = configure("ERROR", LogFormat.AUTO)

_options = DATABASES["default"]["OPTIONS"]
assert isinstance(_options, dict)  # noqa: S101
_options.pop("pool", None)
DATABASES["default"]["CONN_MAX_AGE"] = None
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
