from datetime import UTC, datetime

import pytest

from controlplane.domain.notify.hours import Hours
from controlplane.domain.notify.rules import Call, Rule, Step, Takes, words

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
CALL = Call(subject="incident:1", run="demo", klass="hang", severity="warning", loud=True)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Rule(), True),
        (Rule(least="critical"), False),
        (Rule(takes=Takes.QUIET), False),
        (Rule(takes=Takes.BOTH), True),
        (Rule(runs=frozenset({"demo"})), True),
        (Rule(runs=frozenset({"other"})), False),
        (Rule(classes=frozenset({"crash"})), False),
        (Rule(hours=Hours.parse("Mon 08:00-20:00", "UTC")), False),
    ],
)
def test_a_rule_wants_what_fits_severity_loudness_run_class_and_hour(rule, wanted):
    assert rule.wants(CALL, NOW) is wanted


def test_a_severity_that_nobody_knows_counts_as_the_worst():
    assert Rule(least="critical").wants(Call(subject="incident:1", severity="apocalyptic"), NOW)


def test_a_rule_reads_as_a_sentence():
    rule = Rule(least="warning", runs=frozenset({"demo"}), remind_s=3600)
    steps = [Step(after_s=0, transports=("ana",)), Step(after_s=300, transports=("ben", "cleo"))]
    assert words(rule, steps) == (
        "pages that are warning or worse of demo, at all hours: at once ana; 5 min later, unless acknowledged, "
        "ben and cleo; again 1 h after an acknowledgement if it is still open"
    )
