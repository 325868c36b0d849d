from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError

from controlplane.runs.models import Machine


@pytest.mark.django_db
def test_a_process_that_answers_is_alive(client):
    assert client.get("/healthz").text == "ok\n"


@pytest.mark.django_db
class TestReadiness:
    def test_tells_how_long_ago_a_reducer_was_swept(self, client):
        assert client.get("/readyz").json() == {"postgresql": True, "redis": True, "last_sweep_age_s": None}
        Machine.objects.create(name="fleet", swept_at=datetime.now(UTC) - timedelta(seconds=90))
        Machine.objects.create(name="run:1", swept_at=None)
        assert 90 <= client.get("/readyz").json()["last_sweep_age_s"] < 120

    def test_survives_without_redis_and_says_so(self, client, settings):
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["redis"]) == (200, False)

    def test_fails_without_postgresql(self, client, monkeypatch):
        def gone(_now):
            raise OperationalError

        monkeypatch.setattr("controlplane.web.health._sweep_age_s", gone)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["postgresql"]) == (503, False)
