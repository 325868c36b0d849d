"""The definition that an execution keeps, for pages: a past night is shown even where this version cannot read it."""

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.runbook import Runbook
from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution


def of(execution: Execution) -> Runbook:
    """Return the runbook of an execution; one that cannot be read any more has a name and no steps."""
    try:
        return registry.of(execution)
    except NotFound:
        name = execution.runbook
        return Runbook(id=name, code="", version=execution.version, title=name, summary="", steps=())
