"""Settings of a replay: the pipeline alone, on a database of its own, with nobody looking on.

No pages are installed, so the live layer has nobody to render for and sends nothing;
nothing here needs Redis or a secret. Nobody waits for its locks either, so it may think for long.
"""

from controlplane.settings.base import *  # noqa: F403
from controlplane.settings.base import DATABASES, INSTALLED_APPS
from controlplane.settings.env import LogFormat
from controlplane.settings.logs import configure

PAGES = frozenset({
    "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles", "django.contrib.humanize",
    "channels", "django_htmx", "ninja",
    "controlplane.ingest", "controlplane.web", "controlplane.demo", "controlplane.embedded",
})  # fmt: skip
"""What only people and agents need; everything else is the pipeline."""

INSTALLED_APPS = [name for name in INSTALLED_APPS if name not in PAGES]
MIDDLEWARE = []
TEMPLATES = []
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
LOGGING = configure("ERROR", LogFormat.AUTO)

_options = DATABASES["default"]["OPTIONS"]
assert isinstance(_options, dict)  # noqa: S101
_options.pop("pool", None)
_options.pop("options", None)
DATABASES["default"]["CONN_MAX_AGE"] = None
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
