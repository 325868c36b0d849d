"""Write down what automation does or proposes, once per key."""

from datetime import datetime

from controlplane.domain.recovery.acts import Act
from controlplane.incidents.models import ActRecord, Incident


def record(act: Act, now: datetime, *, incident: Incident | None = None) -> bool:
    """Write an act; False when it is written already. Part of the caller's transaction.

    What was proposed and is then done is a second act: its key differs by that.
    """
    about = act.node or act.run or "fleet"
    key = f"{incident.pk if incident else 'none'}:{act.do}:{about}:{act.key}:{'proposed' if act.proposed else 'done'}"
    _, new = ActRecord.objects.get_or_create(
        key=key[:250],
        defaults={
            "incident": incident, "at": now, "do": act.do.value, "run": act.run, "node": act.node,
            "args": dict(act.args), "proposed": act.proposed, "why": act.why,
        },
    )  # fmt: skip
    return new
