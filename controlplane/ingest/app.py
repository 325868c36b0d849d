"""The ASGI callable of the agents' addresses.

It can stand alone (`uvicorn controlplane.ingest.asgi:application`) or beside
Django in one process (`controlplane.asgi`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controlplane.domain.errors import Unavailable
from controlplane.ingest import endpoints
from controlplane.ingest.http import Disconnected, Problem, Receive, Scope, Send, answer
from controlplane.ingest.service import Service

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2

Endpoint = Callable[[Service, Scope, Receive], Awaitable[Any]]

ROUTES: Mapping[str, tuple[str, Endpoint]] = {
    "/api/v1/ingest": ("POST", endpoints.ingest),
    "/api/v1/commands": ("GET", endpoints.commands),
    "/api/v1/enrol": ("POST", endpoints.enrol),
    "/api/v1/ping": ("GET", endpoints.ping),
    "/api/v1/token/rotate": ("POST", endpoints.rotate),
}


class Application:
    """Routes requests to endpoints and errors to statuses."""

    def __init__(self) -> None:
        """Nothing is started before the server's lifespan, or the first request, begins."""
        self._services: dict[asyncio.AbstractEventLoop, Service] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            raise ValueError(f"cannot serve {scope['type']}")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._service()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        service = self._services.pop(asyncio.get_running_loop(), None)
        if service is not None:
            await service.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _service(self) -> Service:
        loop = asyncio.get_running_loop()
        service = self._services.get(loop)
        if service is None:
            service = self._services[loop] = Service()
            await service.start()
        return service

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            value = await self._call(scope, receive)
        except Disconnected:
            return
        except Problem as problem:
            await answer(send, problem.body, problem.status, problem.headers)
        except Unavailable as error:
            away = Problem(503, "unavailable", str(error), retry_after_s=RETRY_AFTER_S)
            await answer(send, away.body, away.status, away.headers)
        except Exception:
            log.exception("could not answer %s", scope["path"])
            await answer(send, {"error": "internal", "message": "the control plane failed; it is in its log"}, 500)
        else:
            await answer(send, value)

    async def _call(self, scope: Scope, receive: Receive) -> Any:
        method, endpoint = ROUTES.get(scope["path"], (None, None))
        if endpoint is None:
            raise Problem(404, "not_found", "agents have no such address")
        if scope["method"] != method:
            raise Problem(405, "wrong_method", f"use {method}")
        return await endpoint(await self._service(), scope, receive)


application = Application()
