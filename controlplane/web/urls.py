"""Addresses of the pages."""

from django.urls import URLPattern, URLResolver, include, path

from controlplane.web import act, health
from controlplane.web.views import detectors, executions, fleet, guards, incidents, notifications, rerun, runbooks, runs

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", include("controlplane.web.auth_urls")),
    path("", include("controlplane.web.api.api")),
    path("", include("controlplane.live.urls")),
    path("act/<str:token>/", act.page, name="act"),
    path("", fleet.overview, name="fleet"),
    path("settings/notifications/", notifications.page, name="notifications"),
    path("nodes/", fleet.node_list, name="nodes"),
    path("nodes/<str:name>/", fleet.node_page, name="node"),
    path("nodes/<str:name>/release/", fleet.release, name="release"),
    path("quarantine/", fleet.quarantine, name="quarantine"),
    path("styleguide/", fleet.styleguide, name="styleguide"),
    path("runs/", runs.index, name="runs"),
    path("runs/<str:name>/", runs.page, name="run"),
    path("runs/<str:name>/detectors/", detectors.page, name="run-detectors"),
    path("runs/<str:name>/series.json", runs.numbers, name="run-series"),
    path("runs/<str:name>/acts", runs.acts, name="run-acts"),
    path("runs/<str:name>/hold/", runs.hold, name="run-hold"),
    path("runs/<str:name>/resume/", runs.resume, name="run-resume"),
    path("runs/<str:name>/save-now/", runs.save_now, name="run-save-now"),
    path("incidents/", incidents.index, name="incidents"),
    path("incidents/<int:incident_id>/", incidents.page, name="incident"),
    path("incidents/<int:incident_id>/acts", incidents.acts, name="incident-acts"),
    path("incidents/<int:incident_id>/acknowledge/", incidents.acknowledge, name="incident-acknowledge"),
    path("incidents/<int:incident_id>/note/", incidents.note, name="incident-note"),
    path("incidents/<int:incident_id>/chronicle.md", incidents.chronicle_markdown, name="incident-chronicle"),
    path("incidents/<int:incident_id>/replay/", rerun.page, name="incident-replay"),
    path("guards/", guards.page, name="guards"),
    path("guards/switch/", guards.switch, name="guards-switch"),
    path("guards/mode/", guards.mode, name="guards-mode"),
    path("guards/runbook-mode/", guards.runbook_mode, name="guards-runbook-mode"),
    path("runbooks/", runbooks.index, name="runbooks"),
    path("runbooks/<slug:name>/", runbooks.page, name="runbook"),
    path("runbooks/<slug:name>/start/", runbooks.start, name="runbook-start"),
    path("executions/<int:execution_id>/", executions.page, name="execution"),
    path("executions/<int:execution_id>/<slug:name>/", executions.do, name="execution-act"),
]
