"""Who puts a subject into words.

Messages are rendered when they are sent, not when they are asked for: what was true a
minute ago may be over. The pages, which lie above, register the words.
"""

from collections.abc import Callable
from datetime import datetime

from controlplane.domain.notify.text import Told

Renderer = Callable[[str, datetime], Told]

_renderers: dict[str, Renderer] = {}


def register(kind: str, render: Renderer) -> None:
    """Let `render(subject, now)` put subjects of this kind into words; `subject` is as `incident:12`."""
    _renderers[kind] = render


def told(subject: str, now: datetime) -> Told:
    """Put a subject into words as it stands now; one that nobody knows is told by its name."""
    render = _renderers.get(subject.partition(":")[0])
    return render(subject, now) if render else Told(subject=subject, sentence=f"{subject} needs attention")
