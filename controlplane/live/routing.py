"""What answers web sockets: only same-origin pages of signed-in people."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path

from controlplane.live.consumers import LiveConsumer

_route = path("live/", LiveConsumer.as_asgi())  # type: ignore[arg-type]
application = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter([_route])))  # type: ignore[list-item]
