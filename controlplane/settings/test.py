"""Settings of the test run: real servers, started by tests/servers.py.

Each worker's database is a copy of one that is migrated, where tests/servers.py has made one.
Connections are kept by thread instead of pooled, because the test runner
creates and drops databases under them. A test is a transaction that may think for long.
"""

import os

from controlplane.settings.base import *  # noqa: F403
from controlplane.settings.base import DATABASES

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

_options = DATABASES["default"]["OPTIONS"]
assert isinstance(_options, dict)  # noqa: S101
_options.pop("pool", None)
_options.pop("options", None)
DATABASES["default"]["CONN_MAX_AGE"] = 600
DATABASES["default"]["TEST"] = {"TEMPLATE": os.environ.get("MIDDLEWATCH_TEST_TEMPLATE", "")}

STATIC_ROOT = None  # type: ignore[assignment]  # nothing is collected: files are served from where they lie
