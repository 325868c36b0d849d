import math
from dataclasses import fields

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.errors import Invalid
from tests.architecture.sources import ROOT


def test_every_setting_tells_its_range_its_meaning_and_where_a_user_reads_its_reason():
    for told in RunPolicy().describe():
        page, _, section = told["source"].partition(", ")
        assert f"\n## {section}\n" in (ROOT / page).read_text(), told["name"]
        assert told["words"]
        assert told["default"] is None or told["low"] <= told["default"] <= told["high"]
    assert len(RunPolicy().describe()) == sum(bool(item.metadata) for item in fields(RunPolicy))


def test_settings_that_are_not_named_keep_their_default():
    policy = RunPolicy.from_overrides({"silence_s": 10})
    assert (policy.silence_s, policy.hang_k) == (10.0, 3.0)


@pytest.mark.parametrize("value", ["60", None, True, math.nan, math.inf, -1, 10**9, 10**400, [60], {}])
def test_a_bad_value_is_refused_by_name(value):
    with pytest.raises(Invalid) as caught:
        RunPolicy.from_overrides({"hang_floor_s": value})
    assert caught.value.field == "hang_floor_s"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"no_such": 1}, "no_such"),
        ({"window": 10.5}, "window"),
        ({"hang_floor_s": 60, "hang_cap_s": 10}, "hang_floor_s"),
        ({"delta_s": 10, "hang_floor_s": 5}, "delta_s"),
        ({"window": 10, "min_samples": 20}, "min_samples"),
        ({"first_step_floor_s": 5000}, "first_step_floor_s"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(overrides, field):
    with pytest.raises(Invalid) as caught:
        RunPolicy.from_overrides(overrides)
    assert caught.value.field == field


@pytest.mark.parametrize("item", [item for item in fields(RunPolicy) if item.metadata], ids=lambda item: item.name)
def test_each_limit_of_each_setting_holds(item):
    low, high = item.metadata["low"], item.metadata["high"]
    for value in (low - 1, high + 1):
        with pytest.raises(Invalid, match=item.name):
            RunPolicy.from_overrides({item.name: value})
