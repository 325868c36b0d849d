from tests.domain.stage import Stage


def training(resume=0):
    stage = Stage()
    stage.launch(resume=resume)
    stage.train(resume + 1, resume + 30, 2.0)
    return stage


def test_a_step_that_nobody_can_have_reached_is_counted_and_not_believed():
    stage = training()
    stage.step(2**62, 2.0)
    stage.train(31, 35, 2.0)
    view = stage.machine.view()
    assert (view.last_step, view.high_water_step, view.refused_leaps) == (35, 35, 1)
    assert stage.log == []


def test_a_few_hundred_steps_at_once_are_believed():
    stage = training()
    stage.step(900, 2.0)
    assert stage.machine.view().high_water_step == 900


def test_what_goes_on_from_a_leap_is_believed_after_three_more_steps():
    stage = training()
    for number in range(3):
        stage.step(50_000 + number, 2.0)
    assert stage.machine.view().high_water_step == 30
    stage.step(50_003, 2.0)
    assert stage.machine.view().high_water_step == 50_003


def test_the_same_wild_number_again_makes_it_no_truer():
    stage = training()
    for _ in range(10):
        stage.step(50_000, 2.0)
    assert stage.machine.view().high_water_step == 30


def test_after_a_long_silence_far_more_steps_are_believed():
    stage = training()
    stage.now += 3600
    stage.step(1800, 2.0)
    assert stage.machine.view().high_water_step == 1800


def test_the_first_step_of_an_attempt_is_measured_from_its_restore_point():
    stage = training(resume=70_000)
    assert stage.machine.view().high_water_step == 70_030
    stage.launch(resume=70_000)
    stage.step(90_000, 2.0)
    assert stage.machine.view().high_water_step == 70_030


def test_late_news_of_an_earlier_attempt_cannot_leap_either():
    stage = training()
    stage.launch(resume=20)
    stage.rank("rank.step", 0, attempt=1, step=2**40, duration_ms=2000)
    assert stage.machine.view().high_water_step == 30
