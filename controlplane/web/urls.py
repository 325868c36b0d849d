"""Addresses of the pages."""

from django.urls import URLPattern, URLResolver, include, path

from controlplane.web import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", include("controlplane.web.auth_urls")),
]
