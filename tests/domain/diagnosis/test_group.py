import pytest

from controlplane.domain.diagnosis.group import IncidentFacts, same_incident
from tests.domain.diagnosis.test_diagnose import finding


def incident(**words):
    return IncidentFacts(**{"run": "demo", "attempt": 1, "klass": "crash", "state": "open", **words})


@pytest.mark.parametrize(
    ("known", "found", "same"),
    [
        (incident(), finding("node_lost"), True),
        (incident(), finding("crash", attempt=2), True),
        (incident(), finding("crash", run="other"), False),
        (incident(state="resolved"), finding("crash"), False),
        (incident(state="mitigated"), finding("node_lost", attempt=1), True),
        (incident(state="mitigated"), finding("crash", attempt=2), False),
        (incident(), finding("telemetry_lost"), False),
        (incident(klass="blind"), finding("blind"), True),
        (incident(klass="blind"), finding("telemetry_lost"), False),
        (incident(klass="telemetry_lost"), finding("node_lost"), False),
        (incident(run=None), finding("crash"), False),
        (incident(run=None, klass="correlated_loss"), finding("correlated_loss", run=None), True),
    ],
)
def test_what_belongs_to_one_incident(known, found, same):
    assert same_incident(known, found) is same


def test_seven_launches_that_fail_are_one_incident():
    assert all(same_incident(incident(), finding("crash", attempt=number)) for number in range(1, 8))
