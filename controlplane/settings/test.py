"""Settings of the test run: real servers, started by tests/servers.py.

Connections are kept by thread instead of pooled, because the test runner
creates and drops databases under them. A test is a transaction that may think for long.
"""

from controlplane.settings.base import *  # noqa: F403
from controlplane.settings.base import DATABASES

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

_options = DATABASES["default"]["OPTIONS"]
assert isinstance(_options, dict)  # noqa: S101
_options.pop("pool", None)
_options.pop("options", None)
DATABASES["default"]["CONN_MAX_AGE"] = 600

STATIC_ROOT = None  # type: ignore[assignment]  # nothing is collected: files are served from where they lie
