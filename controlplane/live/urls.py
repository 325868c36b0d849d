"""Address of the resync."""

from django.urls import path

from controlplane.live import views

urlpatterns = [path("live/resync", views.resync, name="live-resync")]
