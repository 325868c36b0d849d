"""Addresses of pages, sockets' resync and the operators' REST API."""

from django.urls import include, path

urlpatterns = [path("", include("controlplane.web.urls"))]

handler403 = "controlplane.web.errors.forbidden"
handler404 = "controlplane.web.errors.not_found"
handler500 = "controlplane.web.errors.broken"
