"""What the shell around every page shows: how many incidents are open, and what time it is."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from django.http import HttpRequest

from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.parts import PART
from controlplane.web.present.guards import Alarm
from controlplane.web.read import guards


@dataclass
class Shell:
    """Facts of the frame; nothing is read before a template asks."""

    signed_in: bool

    @cached_property
    def open_count(self) -> int:
        """How many incidents are open; a stranger is told nothing."""
        return open_count() if self.signed_in else 0

    @cached_property
    def alarms(self) -> list[Alarm]:
        """Where automation is off, or only proposes."""
        return guards.alarms() if self.signed_in else []

    @cached_property
    def now(self) -> datetime:
        """When the page was made."""
        return datetime.now(UTC)

    @property
    def now_ms(self) -> int:
        """The same in milliseconds since the epoch."""
        return int(self.now.timestamp() * 1000)


def open_count() -> int:
    """Count the open incidents; what is part of one of the fleet counts with it."""
    return Incident.objects.filter(state=IncidentState.OPEN).exclude(PART).count()


def shell(request: HttpRequest) -> dict[str, Shell]:
    """Give `shell` to every template."""
    user = getattr(request, "user", None)
    return {"shell": Shell(signed_in=bool(user and user.is_authenticated))}
