"""A small client of the operators' REST API, enough to tell the demonstration's story."""

import json
from typing import Any

import urllib3


class Client:
    """Speak to `/api/v1/` with an operator's token."""

    def __init__(self, url: str, token: str) -> None:
        self._pool = urllib3.PoolManager(retries=urllib3.Retry(3, backoff_factor=0.2), timeout=10)
        self._base = f"{url}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        """Return the JSON at `path`."""
        return self._call("GET", path)

    def text(self, path: str) -> str:
        """Return the text at `path`."""
        return self._pool.request("GET", self._base + path, headers=self._headers).data.decode()

    def post(self, path: str, **body: Any) -> Any:
        """Post `body` and return the JSON answer."""
        return self._call("POST", path, json=body)

    def _call(self, method: str, path: str, **extra: Any) -> Any:
        answer = self._pool.request(method, self._base + path, headers=self._headers, **extra)
        if answer.status >= 400:  # noqa: PLR2004
            raise RuntimeError(f"{method} {path} answered {answer.status}: {answer.data.decode()[:300]}")
        return json.loads(answer.data)
