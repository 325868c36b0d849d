"""Start-up of the pages."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Registers how topics and messages are put into words, in every process that may need them."""

    name = "controlplane.web"

    def ready(self) -> None:
        """Join the live layer and the messages once all models are known."""
        from controlplane.web import fragments  # noqa: PLC0415 - models are not ready before
        from controlplane.web.read import telling  # noqa: PLC0415

        fragments.register()
        telling.register()
