"""Take back what was told of a launch: the same finding, whichever check it came from."""

from controlplane.domain.detection.launch_state import Standing
from controlplane.domain.findings import Finding, Stage

KLASS = "environment_drift"
"""The class of everything that is told of how an attempt was launched."""


def over(run: str, standing: Standing, detector: str, why: str, now: float) -> Finding:
    """Say why what `detector` told under `standing` holds no more."""
    return Finding(
        key=standing.key,
        detector=detector,
        klass=KLASS,
        stage=Stage.CLEARED,
        entity="workload",
        began=standing.began,
        at=now,
        run=run,
        severity="info",
        sentence=why,
    )
