"""Which checkpoint a rollback takes, what it skips, and when it asks."""

import pytest

from controlplane.domain.checkpoints.restore import Candidate
from controlplane.domain.recovery.rollback import choose_rollback


def saved(*steps, state="verified", **words):
    return [Candidate(step=step, path=f"ckpt/{step}", state=state, **words) for step in steps]


def choose(checkpoints, onset, *, skips=True, transient=False, **words):
    return choose_rollback(checkpoints, onset, supports_skip=skips, transient=transient, **words)


def test_a_checkpoint_twelve_steps_before_the_onset_is_too_near():
    choice = choose(saved(33_500, 33_600, 33_700), 33_712)
    assert (choice.step, choice.path, choice.ask) == (33_600, "ckpt/33600", "")
    assert choice.skip == (33_662, 33_862)
    assert "33712" in choice.why


def test_one_exactly_a_hundred_steps_before_is_far_enough():
    assert choose(saved(200, 400), 500).step == 400
    assert choose(saved(200, 400), 499).step == 200


@pytest.mark.parametrize(
    "newer",
    [
        saved(400, state="torn"),
        saved(400, state="saving"),
        saved(400, state="written"),
        saved(400, suspect=True),
        saved(400, tier="memory"),
        saved(400, tier="local"),
    ],
)
def test_what_is_not_durable_is_passed_over(newer):
    assert choose([*newer, *saved(200)], 532).step == 200


@pytest.mark.parametrize("state", ["complete", "verified", "restored", "pinned"])
def test_every_usable_state_will_do(state):
    assert choose(saved(400, state=state), 532).step == 400


def test_without_a_checkpoint_before_the_onset_a_person_is_asked():
    choice = choose(saved(400), 450)
    assert choice.step is None
    assert "100 steps before" in choice.ask


def test_the_second_try_skips_five_hundred_batches_and_the_third_asks():
    assert choose(saved(400), 532).skip == (482, 682)
    assert choose(saved(400), 532, earlier=[530]).skip == (482, 982)
    third = choose(saved(400), 532, earlier=[530, 531])
    assert third.step == 400
    assert "lower the learning rate" in third.ask


def test_rollbacks_in_another_region_do_not_count():
    assert choose(saved(9_000), 9_200, earlier=[100, 200, 300]).ask == ""


def test_without_skipping_one_rollback_is_tried_when_the_cause_may_pass():
    once = choose(saved(400), 532, skips=False, transient=True)
    assert (once.step, once.skip, once.ask) == (400, None, "")
    assert choose(saved(400), 532, skips=False, transient=True, earlier=[530]).ask
    assert "cannot skip" in choose(saved(400), 532, skips=False).ask


def test_a_checkpoint_that_misleads_is_left_for_the_last_verified_one():
    checkpoints = [*saved(100, 200), *saved(300, state="complete"), *saved(400, state="complete")]
    assert choose(checkpoints, 405, resumed_step=400).step == 200
    assert choose(checkpoints, 530, resumed_step=400).step == 400
    assert choose(saved(200, 400), 405, resumed_step=400).step == 200
