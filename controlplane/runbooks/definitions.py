"""Keep every definition that was ever used, once."""

from datetime import datetime

from controlplane.domain.recovery.runbook import Runbook
from controlplane.runbooks import registry
from controlplane.runbooks.models import Definition


def keep(runbook: Runbook, now: datetime) -> None:
    """Keep a definition before its first use; one that is kept already stays as it is."""
    if Definition.objects.filter(digest=runbook.digest).exists():
        return
    Definition.objects.get_or_create(
        digest=runbook.digest,
        defaults={
            "runbook": runbook.id, "version": runbook.version, "text": runbook.text, "kept_at": now,
            "documents": registry.texts(runbook),
        },
    )  # fmt: skip
