"""Write down what automation does or proposes, once per key; an act that needs a person calls one."""

from datetime import datetime

from psycopg.types.json import Jsonb

from controlplane.domain.recovery.acts import Act, Do
from controlplane.incidents.models import Incident, Severity
from controlplane.incidents.parts import is_part
from controlplane.notify import actions as notify
from controlplane.rows import ask

MAX_KEY = 250
PEOPLE = (Do.PAGE, Do.NOTIFY)
_RECORD = """
    INSERT INTO incidents_actrecord (key, incident_id, at, "do", run, node, args, proposed, why)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (key) DO NOTHING RETURNING id
"""
"""Nothing comes back when the key is there already."""


def record(act: Act, now: datetime, *, incident: Incident | None = None) -> bool:
    """Write an act; False when it is written already. Part of the caller's transaction.

    What was proposed and is then done is a second act: its key differs by that. For what is part of an
    incident of the fleet nobody is called: they are called for that one.
    """
    about = act.node or act.run or "fleet"
    key = f"{incident.pk if incident else 'none'}:{act.do}:{about}:{act.key}:{'proposed' if act.proposed else 'done'}"
    values = [
        key[:MAX_KEY], incident.pk if incident else None, now, act.do.value, act.run, act.node, Jsonb(dict(act.args)),
        act.proposed, act.why,
    ]  # fmt: skip
    new = bool(ask(_RECORD, values))
    if new and incident is not None and act.do in PEOPLE and not act.proposed and not is_part(incident):
        _call(incident, act, f"act:{key}", now)
    return new


def _call(incident: Incident, act: Act, key: str, now: datetime) -> None:
    """Have people told; whoever acknowledged the incident before hears of it once more, but nobody after them.

    What automation cannot go on without is urgent however mild the incident: a planned
    change that fails, a question that nobody answered.
    """
    loud = act.do is Do.PAGE
    notify.call(
        f"incident:{incident.pk}", run=incident.run.name if incident.run else "", klass=incident.klass,
        severity=Severity.CRITICAL if loud else incident.severity, loud=loud, key=key, now=now,
        escalates=incident.acknowledged_at is None,
    )  # fmt: skip
