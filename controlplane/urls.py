"""Addresses of pages, sockets' resync and the operators' REST API."""

from django.urls import include, path

urlpatterns = [path("", include("controlplane.web.urls"))]
