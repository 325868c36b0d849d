import pytest

from controlplane.domain.checkpoints.restore import Candidate, choose_restore_point, exposure


def checkpoint(step, state, **words):
    return Candidate(step=step, path=f"step-{step}", state=state, **words)


def test_the_newest_complete_checkpoint_is_taken_and_the_torn_one_named():
    choice = choose_restore_point(
        [
            checkpoint(100, "verified"),
            checkpoint(300, "torn", why="991 of 992 files"),
            checkpoint(200, "complete"),
        ],
        high_water=310,
    )
    assert (choice.step, choice.path, choice.lost_steps) == (200, "step-200", 110)
    assert choice.skipped == ((300, "991 of 992 files"),)
    assert "300 (991 of 992 files)" in choice.why


@pytest.mark.parametrize("state", ["saving", "written", "torn", "failed", "deleted"])
def test_a_checkpoint_that_is_not_complete_is_never_taken(state):
    assert choose_restore_point([checkpoint(100, state)], high_water=120).step == 0


def test_without_any_checkpoint_training_begins_from_the_start():
    choice = choose_restore_point([], high_water=120)
    assert (choice.step, choice.path, choice.lost_steps) == (0, "", 120)


def test_of_two_copies_of_a_step_the_verified_one_is_taken():
    near, far = checkpoint(100, "complete", tier="local"), Candidate(step=100, path="far", state="verified")
    assert choose_restore_point([near, far], high_water=100).path == "far"


def test_a_checkpoint_under_suspicion_is_passed_over():
    choice = choose_restore_point(
        [checkpoint(300, "complete", suspect=True), checkpoint(200, "complete")], high_water=300
    )
    assert choice.step == 200


def test_exposure_counts_from_the_capture_of_the_last_durable_state():
    lost = exposure(last_step=5300, restore_step=5052, captured_at=0.0, started_at=0.0, now=248 * 105.0, gpus=384)
    assert lost.steps == 248
    assert lost.gpu_hours == pytest.approx(2777.6)


def test_before_the_first_save_everything_since_the_start_is_exposed():
    lost = exposure(last_step=7, restore_step=0, captured_at=None, started_at=100.0, now=160.0, gpus=60)
    assert (lost.seconds, lost.gpu_hours) == (60.0, 1.0)
