"""Tell a finding only when it is new or has changed.

Detectors say at every sweep what holds; people and incidents only want news. What
was told last is kept per key, as a digest of its words.
"""

from collections.abc import Iterable
from hashlib import blake2b

from controlplane.domain.detection.state import Told
from controlplane.domain.findings import Finding, Stage

MAX_TOLD = 512


class News:
    """Filters findings against what was `told` before, and remembers them there."""

    def __init__(self, told: dict[str, Told]) -> None:
        """Work on `told` in place; it is part of a machine's state."""
        self.told = told

    def of(self, found: Iterable[Finding]) -> list[Finding]:
        """Give those of `found` that are news; what was never told needs no clearing."""
        news = [finding for finding in found if self._is_news(finding)]
        for key in list(self.told)[: max(0, len(self.told) - MAX_TOLD)]:
            del self.told[key]
        return news

    def withdraw(self, *, run: str, now: float, why: str) -> list[Finding]:
        """Give the clearing of everything told that still stands."""
        return [_withdrawn(run, key, told, now, why) for key, told in self.told.items() if told.stage != Stage.CLEARED]

    def _is_news(self, finding: Finding) -> bool:
        told, digest = self.told.get(finding.key), _digest(finding)
        if (told is None and finding.stage is Stage.CLEARED) or (told is not None and told.digest == digest):
            return False
        self.told[finding.key] = _told(finding, digest)
        return True


def _digest(finding: Finding) -> str:
    lines = [f"{line.entity}{line.weight:+.2f}{line.text}" for line in finding.evidence]
    words = [finding.klass, finding.stage.value, finding.entity, finding.severity, finding.sentence, *sorted(lines)]
    return blake2b("\n".join(words).encode(), digest_size=12).hexdigest()


def _told(finding: Finding, digest: str) -> Told:
    return Told(
        attempt=finding.attempt,
        klass=finding.klass,
        stage=finding.stage.value,
        entity=finding.entity,
        detector=finding.detector,
        severity=finding.severity,
        began=finding.began,
        digest=digest,
    )


def _withdrawn(run: str, key: str, told: Told, now: float, why: str) -> Finding:
    return Finding(
        key=key,
        detector=told.detector,
        klass=told.klass,
        stage=Stage.CLEARED,
        entity=told.entity,
        began=told.began,
        at=now,
        run=run,
        attempt=told.attempt,
        severity="info",
        sentence=why,
        facts={"withdrawn": True},
    )
