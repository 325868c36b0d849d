from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.accounting.claims import AttemptFacts, Phase, Trouble, claims, merged, outside
from controlplane.domain.accounting.goodput import AttemptWork, Step, goodput
from controlplane.domain.accounting.intervals import Label, Span, totals
from controlplane.domain.accounting.reliability import reliability

S = 1000


def steps(first, count, begin_s, each_s=100):
    return [
        Step(first + place, (begin_s + each_s * place) * S, (begin_s + each_s * (place + 1)) * S)
        for place in range(count)
    ]


def attempt(number, resume, made, began_s, **facts):
    return AttemptFacts(work=AttemptWork(number=number, resume_step=resume, steps=made), began=began_s * S, **facts)


# The known example of methods 5, told by facts instead of claims.
CRASHED = attempt(
    1, 0, [*steps(1, 10, 0), *steps(11, 6, 1040), Step(17, 1640 * S, 1690 * S)], 0,
    ended=1700 * S, phases=[Phase(name="save", begin=1000 * S, end=1040 * S)],
    trouble=Trouble(began=1690 * S, found=1750 * S, acting=1780 * S, approvals=[(1750 * S, 1780 * S)]),
)  # fmt: skip
RESTARTED = attempt(
    2, 10, steps(11, 10, 2460), 1960, phases=[Phase(name="restore", begin=1960 * S, end=2260 * S)]
)  # fmt: skip


def account(*attempts, end_s, durable=10):
    return goodput(
        [item.work for item in attempts], begin=0, end=end_s * S, durable_step=durable,
        other=claims(attempts, until=end_s * S),
    )  # fmt: skip


def test_the_known_example_comes_out_exactly_from_its_facts():
    told = account(CRASHED, RESTARTED, end_s=3460).by_label_ms
    assert told[Label.TRAIN_LOST] == 650 * S
    assert told[Label.SAVE_BLOCKING] == 40 * S
    assert told[Label.DETECT] == 60 * S
    assert told[Label.WAIT_APPROVAL] == 30 * S
    assert told[Label.REPLACE] == 180 * S
    assert told[Label.RESTORE] == 300 * S
    assert told[Label.WARMUP] == 200 * S
    assert told[Label.TRAIN_SAFE] + told[Label.TRAIN_AT_RISK] == 2000 * S
    assert told[Label.IDLE] == 0


def test_a_suspicion_over_a_step_that_came_in_the_end_takes_nothing_from_training():
    slow = attempt(1, 0, [Step(1, 0, 500 * S)], 0, trouble=Trouble(began=100 * S, found=200 * S, over=500 * S))
    assert account(slow, end_s=500, durable=1).by_label_ms[Label.TRAIN_SAFE] == 500 * S


def test_steps_that_are_no_longer_on_record_do_not_turn_into_a_long_start():
    old = attempt(1, 0, [], 0, stepped=60 * S, ended=900 * S)
    told = account(old, end_s=1000).by_label_ms
    assert (told[Label.WARMUP], told[Label.IDLE]) == (60 * S, 940 * S)


def test_an_outage_outranks_what_was_done_about_it():
    lost = attempt(
        1,
        0,
        steps(1, 1, 0),
        0,
        ended=150 * S,
        trouble=Trouble(began=100 * S, found=130 * S, outage=True, acting=140 * S),
    )
    told = account(lost, end_s=400, durable=1).by_label_ms
    assert (told[Label.OUTAGE], told[Label.DETECT], told[Label.REPLACE]) == (300 * S, 0, 0)


def test_waiting_for_a_node_that_never_comes_is_wait_for_capacity_to_the_end():
    short = attempt(
        1, 0, steps(1, 1, 0), 0, ended=100 * S,
        trouble=Trouble(began=100 * S, found=130 * S, acting=140 * S, capacity=[(140 * S, None)]),
    )  # fmt: skip
    assert account(short, end_s=400, durable=1).by_label_ms[Label.WAIT_CAPACITY] == 260 * S


def test_nothing_is_claimed_after_the_trouble_is_over():
    healed = attempt(1, 0, steps(1, 1, 0), 0, trouble=Trouble(began=100 * S, found=130 * S, over=150 * S))
    told = account(healed, end_s=400, durable=1).by_label_ms
    assert (told[Label.DETECT], told[Label.DIAGNOSE], told[Label.IDLE]) == (30 * S, 20 * S, 250 * S)


def test_a_counter_that_goes_back_inside_an_attempt_loses_what_is_made_again():
    hidden = attempt(1, 0, [*steps(1, 5, 0), *steps(3, 4, 600)], 0)
    told = account(hidden, end_s=1000, durable=0).by_label_ms
    assert told[Label.TRAIN_LOST] == 300 * S
    assert told[Label.TRAIN_AT_RISK] == 600 * S
    assert reliability([hidden]).interruptions == 1


def test_mean_times_come_with_how_many_were_measured():
    told = reliability([CRASHED, RESTARTED])
    assert (told.detect.ms, told.detect.n) == (60 * S, 1)
    assert told.resume.ms == (2560 - 1690) * S
    assert told.caught_up.ms == (3260 - 1690) * S
    assert told.mtbf.ms == told.running_ms == (1690 + 1000) * S


def test_a_stop_that_a_person_asked_for_is_no_interruption():
    stopped = attempt(1, 0, steps(1, 5, 0), 0, ended=500 * S, planned=True)
    told = reliability([stopped])
    assert (told.interruptions, told.planned, told.mtbf.ms) == (0, 1, None)


pieces = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


@given(pieces, pieces)
def test_what_is_cut_out_is_gone_and_the_rest_stays(claimed, busy):
    spans = [Span(begin, end, Label.DETECT) for begin, end in merged(claimed)]
    left = outside(spans, merged(busy))
    covered = {at for begin, end in busy for at in range(begin, end)}
    wanted = {at for span in spans for at in range(span.begin, span.end)} - covered
    assert {at for span in left for at in range(span.begin, span.end)} == wanted
    assert totals(left, 0, 200)[Label.DETECT] == len(wanted)
