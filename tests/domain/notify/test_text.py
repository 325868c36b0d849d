from controlplane.domain.notify.text import PUSH_MAX, Told, body, first_line

HANG = Told(
    subject="incident:4", sentence="Run demo is stopped: rank 3 hangs", run="demo", cost="8 GPUs idle · 11 min",
    doing="Draining n04", next="Restart from step 400", url="https://watch/incidents/4/",
    acknowledge_url="https://watch/act/abc/",
)  # fmt: skip
SLOW = Told(
    subject="incident:5", sentence="Run other is slow", run="other", severity="warning", url="https://watch/i/5/"
)


def test_the_first_line_says_state_cost_what_is_done_and_what_follows():
    assert first_line([HANG]) == (
        "Run demo is stopped: rank 3 hangs. 8 GPUs idle · 11 min. Doing: draining n04. Next: restart from step 400."
    )


def test_the_body_adds_where_to_look_and_to_acknowledge():
    assert body([HANG], "https://watch/incidents/").splitlines()[1:] == [
        "", "https://watch/incidents/4/", "Acknowledge: https://watch/act/abc/",
    ]  # fmt: skip


def test_several_incidents_become_one_message_that_names_the_worst():
    assert first_line([SLOW, HANG]).startswith("2 incidents on 2 runs; the worst: Run demo is stopped")
    assert body([SLOW, HANG], "").index("demo") < body([SLOW, HANG], "").index("other is slow")


def test_a_storm_lists_the_worst_and_says_how_many_more_there_are():
    text = body([HANG] * 40, "https://watch/incidents/")
    assert text.startswith("40 incidents on 1 run; the worst: ")
    assert text.count("Acknowledge:") == 5
    assert "35 more: https://watch/incidents/" in text


def test_a_push_text_never_exceeds_its_limit_and_then_the_body_has_it_whole():
    long = Told(subject="incident:4", sentence="x " * 400)
    assert len(first_line([long])) <= PUSH_MAX
    assert "x " * 300 in body([long], "")


def test_what_is_over_is_told_as_over():
    over = Told(subject="incident:4", sentence="Run demo recovered after 5 min", run="demo", over=True)
    assert first_line([over, over]) == "2 incidents on 1 run are over; the last: Run demo recovered after 5 min."
