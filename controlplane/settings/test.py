"""Settings of the test run: real servers, started by tests/servers.py."""

from controlplane.settings.base import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
