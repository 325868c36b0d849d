"""Who puts a subject into words.

Messages are rendered when they are sent, not when they are asked for: what was true a
minute ago may be over. The pages, which lie above, register the words.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from controlplane.domain.notify.text import Told

log = logging.getLogger(__name__)

Renderer = Callable[[str, datetime], Told]

_renderers: dict[str, Renderer] = {}


def register(kind: str, render: Renderer) -> None:
    """Let `render(subject, now)` put subjects of this kind into words; `subject` is as `incident:12`."""
    _renderers[kind] = render


def told(subject: str, now: datetime) -> Told:
    """Put a subject into words as it stands now; what cannot be put into words is told by its name.

    A mistake in the words must never keep somebody from being called.
    """
    render = _renderers.get(subject.partition(":")[0])
    try:
        if render:
            return render(subject, now)
    except Exception:
        log.exception("%s could not be put into words", subject)
    return Told(subject=subject, sentence=f"{subject.replace(':', ' ').capitalize()} needs attention")
