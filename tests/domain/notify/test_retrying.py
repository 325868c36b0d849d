from datetime import UTC, datetime, timedelta

import pytest

from controlplane.domain.notify.retrying import TRIED_FOR, Answer, Fate, delay_s, fate_of_status, next_try

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
AGAIN = Answer(fate=Fate.AGAIN)


@pytest.mark.parametrize(
    ("status", "fate"),
    [(200, "delivered"), (202, "delivered"), (302, "never"), (400, "never"), (404, "never"), (408, "again"),
     (429, "again"), (500, "again"), (503, "again")],
)  # fmt: skip
def test_a_wrong_message_is_given_up_and_a_busy_receiver_asked_again(status, fate):
    assert fate_of_status(status) == fate


def test_waits_double_and_stay_bounded_and_differ_between_messages():
    waits = [delay_s(tries, "a") for tries in range(1, 15)]
    assert 1.6 <= waits[0] <= 2.4
    assert waits[5] > 8 * waits[1]
    assert max(waits) <= 360
    assert delay_s(3, "a") != delay_s(3, "b")
    assert delay_s(3, "a") == delay_s(3, "a")


def test_a_receiver_may_ask_for_a_longer_wait_but_not_for_ever():
    assert delay_s(1, "a", asked_s=120) == 120
    assert delay_s(1, "a", asked_s=10**9) == 3600


def test_a_message_is_given_up_after_hours_and_at_once_when_it_is_wrong():
    assert next_try(AGAIN, 1, "a", created=NOW, now=NOW)
    assert next_try(AGAIN, 9, "a", created=NOW, now=NOW + TRIED_FOR - timedelta(minutes=1)) is None
    assert next_try(Answer(fate=Fate.NEVER), 1, "a", created=NOW, now=NOW) is None
    assert next_try(Answer(fate=Fate.DELIVERED), 1, "a", created=NOW, now=NOW) is None
