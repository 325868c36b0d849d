from controlplane.replay import compare, words

INCIDENT = {"class": "hang", "run": "demo", "opened_t": 10.0, "confirmed_t": 20.0, "resolved_t": None,
            "severity": "critical", "blamed": [], "cleared": [], "title": "rank 1 hangs", "evidence": []}  # fmt: skip
KILL = {"t": 21.0, "do": "kill", "run": "demo", "incident": 0}
REPORT = {"incidents": [INCIDENT], "actions": [KILL], "accounting": {"goodput": 0.9, "by_label_s": {"detect": 11.0}},
          "fleet": {"n0": {"state": "healthy", "strikes": 0}}}  # fmt: skip


def test_equal_reports_differ_in_nothing():
    found = compare.differences(REPORT, REPORT)
    assert not any(found.values())
    assert list(words.difference_lines(found, "a", "b")) == ["Nothing differs."]


def test_an_incident_that_one_side_lacks_is_told():
    found = compare.differences(REPORT, {**REPORT, "incidents": []})
    assert found["incidents"] == [
        {"class": "hang", "run": "demo", "only_here": True, "opened_t": 10.0, "title": "rank 1 hangs"}
    ]


def test_an_act_at_another_time_is_a_difference_and_another_place_in_the_list_is_none():
    later = {**KILL, "t": 30.0}
    assert compare.differences(REPORT, {**REPORT, "actions": [later]})["actions"] == [{"here": KILL, "there": later}]
    assert compare.differences(REPORT, {**REPORT, "actions": [{**KILL, "incident": 3}]})["actions"] == []


def test_changed_numbers_and_states_are_told_by_name():
    other = {
        **REPORT,
        "accounting": {"goodput": 0.8, "by_label_s": {}},
        "fleet": {"n0": {"state": "spare", "strikes": 0}},
    }
    found = compare.differences(REPORT, other)
    assert found["accounting"] == {"goodput": {"here": 0.9, "there": 0.8}, "detect_s": {"here": 11.0, "there": None}}
    assert found["fleet"]["n0"]["there"]["state"] == "spare"
    told = "\n".join(words.difference_lines(found, "a", "b"))
    assert "goodput: 0.8 there, 0.9 here" in told
