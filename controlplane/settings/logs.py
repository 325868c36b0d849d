"""Logging for every process: structured, to standard error.

People at a terminal get aligned, coloured lines; everything else (files,
containers, collectors) gets one JSON object for each line.
"""

import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controlplane.settings.env import LogFormat

SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
QUIET = {"level": "WARNING"}  # a line for each request or message would drown the rest


def _without_colours(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Drop the coloured copy of the message that uvicorn adds."""
    event.pop("color_message", None)
    return event


def _renderers(chosen: LogFormat) -> list[Processor]:
    at_terminal = chosen is LogFormat.CONSOLE or (chosen is LogFormat.AUTO and sys.stderr.isatty())
    if at_terminal:
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def configure(level: str, chosen: LogFormat) -> dict[str, object]:
    """Set structlog up and return the standard library's logging configuration."""
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_colours, *_renderers(chosen)]
    own = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": processors,
                "foreign_pre_chain": SHARED,
            },
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": own,
            "django.server": own,
            "uvicorn": own,
            "uvicorn.error": own,
            "uvicorn.access": own | QUIET,
            "celery": own,
            "celery.beat": QUIET,
            "celery.app.trace": QUIET,
            "celery.worker.strategy": QUIET,
        },
    }
