"""Two addresses for load balancers and supervisors.

`/healthz` says that this process answers. `/readyz` says whether the parts it
leans on do: PostgreSQL is needed, Redis and a recent sweep are reported because
pages still work, stale, without them.
"""

from datetime import UTC, datetime

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from controlplane.runs.models import Machine

_REDIS_PATIENCE_S = 1.0


@login_not_required
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer that the process is alive."""
    del request
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when PostgreSQL answers, 503 otherwise, with the state of each part."""
    del request
    try:
        sweep_age = _sweep_age_s(datetime.now(UTC))
    except DatabaseError:
        return JsonResponse({"postgresql": False, "redis": _redis_answers(), "last_sweep_age_s": None}, status=503)
    return JsonResponse({"postgresql": True, "redis": _redis_answers(), "last_sweep_age_s": sweep_age})


def _sweep_age_s(now: datetime) -> float | None:
    """Seconds since any reducer was last swept; nothing before the first sweep."""
    newest = Machine.objects.exclude(swept_at=None).order_by("-swept_at").values_list("swept_at", flat=True).first()
    return round((now - newest).total_seconds(), 1) if newest else None


def _redis_answers() -> bool:
    patience = {"socket_timeout": _REDIS_PATIENCE_S, "socket_connect_timeout": _REDIS_PATIENCE_S}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **patience) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
