"""What comes and goes costs no further words."""

from datetime import timedelta

import pytest

from controlplane.chronicle.queries import entries
from controlplane.domain.findings import Finding, Stage
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.runbooks import actions
from controlplane.runs.times import seconds
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db


def decisions(incident):
    return [entry.sentence for entry in entries(f"incident:{incident.pk}") if entry.kind == "decision"]


def test_that_nothing_is_done_is_told_of_each_attempt_unless_the_trouble_comes_and_goes():
    cluster = training(steps=6, size=2)
    finding = Finding(
        key="demo/slow", detector="D-04", klass="fail_slow", stage=Stage.SUSPECT, entity="run",
        began=seconds(cluster.now), at=seconds(cluster.now), run="demo", attempt=1, severity="warning",
        sentence="the run is slow",
    )  # fmt: skip
    (incident,) = incidents.record(cluster.run, [finding], cluster.now)
    nothing = "Decided to do nothing: a suspicion alone stops nothing."
    actions.consider(incident, cluster.now)
    Incident.objects.update(attempt=2)
    actions.consider(incident, cluster.now)
    assert decisions(incident) == [nothing, nothing]
    Incident.objects.update(attempt=3, flapping_until=cluster.now + timedelta(minutes=10))
    actions.consider(incident, cluster.now)
    assert decisions(incident) == [nothing, nothing]
    assert Incident.objects.get().decision["attempt"] == 3
