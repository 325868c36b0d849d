"""Start-up of the pages."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Registers how topics are rendered, in every process that may commit a change."""

    name = "controlplane.web"

    def ready(self) -> None:
        """Join the live layer once all models are known."""
        from controlplane.web import fragments  # noqa: PLC0415 - models are not ready before

        fragments.register()
