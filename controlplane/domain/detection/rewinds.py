"""Tell of restarts inside an attempt: the step counter goes back while the run lives (methods 11.4).

Nothing is to be done about one, since the run goes on; but it is an interruption, and
the steps that are made again are lost work, so it is kept on record.
"""

from controlplane.domain.detection.modes import Mode
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Finding, Stage

DETECTOR = "D-02"


def look(state: RunState, _policy: RunPolicy, _now: float) -> list[Finding]:
    """Give what is on record for the attempt; it is only observed, whatever the mode."""
    attempt = state.live
    if attempt is None or not attempt.rewinds:
        return []
    again = "once" if attempt.rewinds == 1 else f"{attempt.rewinds} times"
    words = f"run {state.run} restarted {again} inside attempt {attempt.number} without a word"
    return [
        Finding(
            key=f"{state.run}/{attempt.number}/rewinds",
            detector=DETECTOR,
            klass="crash",
            stage=Stage.CONFIRMED,
            entity="run",
            began=attempt.rewound_at,
            at=attempt.rewound_at,
            run=state.run,
            attempt=attempt.number,
            severity="info",
            sentence=f"{words}; {attempt.rewound_steps} steps are made again",
            facts={"rewinds": attempt.rewinds, "lost_steps": attempt.rewound_steps, "fingerprint": "hidden restart"},
            mode=Mode.OBSERVE.value,
        )
    ]
