"""The whole control plane as one ASGI application: agents, sockets and pages.

Agents' requests never enter Django's request path, which costs many times what
taking in a batch does.
"""

import os

from django.core.asgi import get_asgi_application

from controlplane.settings.boot import refuse_unfit

refuse_unfit()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")
_django = get_asgi_application()

from controlplane.ingest.app import ROUTES  # noqa: E402
from controlplane.ingest.app import application as _ingest  # noqa: E402
from controlplane.ingest.http import Receive, Scope, Send  # noqa: E402
from controlplane.live.routing import application as _live  # noqa: E402


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a connection to whom it is for."""
    if scope["type"] == "websocket":
        await _live(scope, receive, send)  # type: ignore[arg-type]
    elif scope["type"] == "lifespan" or scope["path"] in ROUTES:
        await _ingest(scope, receive, send)
    else:
        await _django(scope, receive, send)  # type: ignore[arg-type]
