import json
import math
from copy import deepcopy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from middlewatch_wire import AgentIdentity, Batch, Malformed, Received, decode_batch, encode_batch, make_event
from middlewatch_wire.codec import FREE_FORM, TooMany
from middlewatch_wire.events import finite
from middlewatch_wire.kinds import KINDS
from middlewatch_wire.limits import (
    MAX_AT_MS,
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_INT,
    MAX_INT4,
    MAX_ITEMS,
    MAX_KIND,
    MAX_NAME,
    MAX_SEQ,
    MAX_STRING,
    MIN_INT,
)

AGENT = {"node": "gpu-0417", "incarnation": "0f3c", "version": "0.1.0"}
STEP = {"seq": 812, "at_ms": 1795921331401, "kind": "rank.step", "run": "llama-70b", "attempt": 14, "rank": 0}


def text(*events, **envelope):
    return json.dumps({"wire": 1, "agent": AGENT, "sent_at_ms": 1, "events": list(events), **envelope}).encode()


def step(**data):
    return {**STEP, "data": {"step": 1, **data}}


def free(value):
    return {**STEP, "kind": "of.tomorrow", "data": value}


def rejection(*events):
    (rejected,) = decode_batch(text(*events)).rejected
    return rejected.field, rejected.reason


def test_the_example_of_the_contract_is_read():
    event = step(step=81400, duration_ms=5120, tokens=4194304, loss=1.83)
    decoded = decode_batch(text(event))
    assert decoded.agent == AgentIdentity(**AGENT)
    assert decoded.events == [
        Received(
            812, 1795921331401, "rank.step", "llama-70b", 14, 0,
            b'{"step":81400,"duration_ms":5120,"tokens":4194304,"loss":1.83}',
        )
    ]  # fmt: skip
    assert decoded.rejected == []


def test_what_an_agent_makes_is_what_the_control_plane_reads():
    event = make_event(
        "rank.step", at_ms=5, seq=3, run="r", attempt=1, rank=0, step=9, loss=math.nan, grad_norm=math.inf, lr=-math.inf
    )
    batch = Batch(agent=AgentIdentity(**AGENT), sent_at_ms=6, events=[event])
    (received,) = decode_batch(encode_batch(batch)).events
    assert json.loads(received.data) == {"step": 9, "loss": "nan", "grad_norm": "inf", "lr": "-inf"}


def test_an_agent_cannot_make_an_event_that_would_be_refused():
    with pytest.raises(msgspec.ValidationError):
        make_event("rank.step", at_ms=1, step="nine")
    with pytest.raises(KeyError):
        make_event("rank.stepp", at_ms=1, step=9)


def test_numbers_that_are_not_finite_become_words_at_any_depth():
    assert finite({"a": [math.nan, (1.5, -math.inf)]}) == {"a": ["nan", [1.5, "-inf"]]}


def test_an_unknown_field_is_ignored():
    (event,) = decode_batch(text({**step(flavour="sweet"), "colour": "red"}, mood="good")).events
    assert json.loads(event.data) == {"step": 1}


def test_an_unknown_kind_is_kept_as_it_is():
    data = {"a": [1, 2.5, None, True, {"b": "ü"}]}
    (event,) = decode_batch(text(free(data))).events
    assert (event.kind, json.loads(event.data)) == ("of.tomorrow", data)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_reads_data_without_any_optional_field(kind):
    required = {"rank.step": {"step": 1}, "command.result": {"command_id": "c", "state": "succeeded"}}
    (event,) = decode_batch(text({"seq": 1, "at_ms": 1, "kind": kind, "data": required.get(kind, {})})).events
    assert json.loads(event.data) == required.get(kind, {})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at_ms", "soon"), ("at_ms", -1), ("at_ms", MAX_AT_MS + 1), ("kind", ""), ("kind", "k" * (MAX_KIND + 1)),
        ("kind", 7), ("run", "r" * (MAX_NAME + 1)), ("run", ""), ("run", "a\0b"), ("run", "a\nb"), ("kind", "a\0b"),
        ("attempt", -1), ("attempt", MAX_INT4 + 1), ("rank", 1.5), ("rank", MAX_INT4 + 1), ("data", None),
        ("data", []), ("data", "x"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_and_the_good_events_stay(field, value):
    decoded = decode_batch(text({**step(), "seq": 1}, {**step(), "seq": 2, field: value}, {**step(), "seq": 3}))
    assert [event.seq for event in decoded.events] == [1, 3]
    assert [(bad.seq, bad.index, bad.field) for bad in decoded.rejected] == [(2, 1, field)]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "data.step"), ({"step": "one"}, "data.step"), ({"step": 2**70}, "data.step"),
        ({"step": 1, "loss": "NaN"}, "data.loss"), ({"step": 1, "loss": {}}, "data.loss"),
        ({"step": 1, "tokens": MAX_INT + 1}, "data.tokens"), ({"step": 1, "tokens": MIN_INT - 1}, "data.tokens"),
    ],
)  # fmt: skip
def test_a_bad_field_of_the_data_is_named(data, field):
    assert rejection({**STEP, "data": data})[0] == field


def test_the_largest_numbers_are_taken():
    event = {**step(tokens=MAX_INT), "seq": MAX_SEQ, "at_ms": MAX_AT_MS, "attempt": MAX_INT4, "rank": MAX_INT4}
    (received,) = decode_batch(text(event)).events
    assert (received.seq, json.loads(received.data)["tokens"]) == (MAX_SEQ, MAX_INT)


@pytest.mark.parametrize("seq", [None, "1", 0, -1, MAX_SEQ + 1, 1.5, [], "missing"])
def test_an_event_that_cannot_be_named_spoils_the_batch(seq):
    event = step()
    event["seq"] = seq
    if seq == "missing":
        del event["seq"]
    with pytest.raises(Malformed) as error:
        decode_batch(text({**step(), "seq": 1}, event))
    assert (error.value.index, error.value.field) == (1, "events[1].seq")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"), (b"[]", "body"), (b"null", "body"), (b"\xff\xfe", "body"), (b"{", "body"),
        (b"[" * 99_999, "body"),
        (b"{}", "agent"), (text(wire=2), "wire"), (text(agent={}), "agent.node"), (text(sent_at_ms="x"), "sent_at_ms"),
        (text(events={}), "events"), (text(agent={**AGENT, "node": "a\0"}), "agent.node"),
        (text(agent={**AGENT, "incarnation": ""}), "agent.incarnation"), (text(5), "events[0]"),
        (text(agent={**AGENT, "node": "n" * (MAX_NAME + 1)}), "agent.node"),
    ],
)  # fmt: skip
def test_what_is_no_batch_is_malformed(body, field):
    with pytest.raises(Malformed) as error:
        decode_batch(body)
    assert error.value.field == field


def test_a_batch_may_have_as_many_events_as_the_limit_and_no_more():
    events = [{**step(), "seq": seq} for seq in range(1, MAX_EVENTS + 2)]
    assert len(decode_batch(text(*events[:-1])).events) == MAX_EVENTS
    with pytest.raises(TooMany):
        decode_batch(text(*events))


def test_nul_characters_are_replaced_wherever_text_is_free():
    log = {**STEP, "kind": "rank.log", "data": {"text": "a\0b"}}
    decoded = decode_batch(text(log, free({"k\0": ["\0", "\\u0000"]})))
    assert [json.loads(event.data) for event in decoded.events] == [
        {"text": "a\ufffdb"}, {"k\ufffd": ["\ufffd", "\\u0000"]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (r"\ud800!", "\ufffd!"), (r"\udc00", "\ufffd"), (r"\uD800\uD800", "\ufffd\ufffd"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\\ud800", r"\ud800"), (r"\udfff\ud83d\ude00\ud8ff", "\ufffd\U0001f600\ufffd"),
    ],
)  # fmt: skip
def test_halves_of_surrogate_pairs_are_replaced(sent, kept):
    log = {**STEP, "kind": "rank.log", "data": {"text": "HERE"}}
    (event,) = decode_batch(text(log).replace(b"HERE", sent.encode())).events
    assert json.loads(event.data) == {"text": kept}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_free_data_is_nested_as_deep_as_the_limit_and_no_deeper():
    assert decode_batch(text(free({"a": nested(MAX_DEPTH - 1)}))).rejected == []
    assert "nested deeper" in rejection(free({"a": nested(MAX_DEPTH)}))[1]
    deep = text(free({"a": "DEEP"})).replace(b'"DEEP"', b"[" * 50_000 + b"]" * 50_000)
    with pytest.raises(Malformed):
        decode_batch(deep)


def test_strings_lists_and_events_have_their_limits():
    assert decode_batch(text(free({"a": "x" * MAX_STRING}))).rejected == []
    assert rejection(free({"a": "x" * (MAX_STRING + 1)}))[0] == "data.a"
    assert rejection({**STEP, "kind": "rank.log", "data": {"text": "x" * (MAX_STRING + 1)}})[0] == "data.text"
    assert rejection(free({"a": [0] * (MAX_ITEMS + 1)}))[0] == "data.a"
    assert rejection({**STEP, "kind": "rank.stack", "data": {"frames": [""] * (MAX_ITEMS + 1)}})[0] == "data.frames"
    assert rejection(free({str(n): "x" * 1000 for n in range(MAX_EVENT_BYTES // 1000 + 1)}))[0] == "data"


def test_integers_of_free_data_fit_a_bigint():
    assert decode_batch(text(free({"a": [MAX_INT, MIN_INT]}))).rejected == []
    assert rejection(free({"a": [1, MAX_INT + 1]})) == ("data.a[1]", "integer out of range")


def test_kinds_with_parts_of_no_shape_are_those_that_are_walked_through():
    def has_any(shape):
        if isinstance(shape, msgspec.inspect.AnyType):
            return True
        inner = [getattr(field, "type", None) for field in getattr(shape, "fields", ())]
        inner += [getattr(shape, name, None) for name in ("item_type", "key_type", "value_type", "type")]
        return any(has_any(part) for part in [*inner, *getattr(shape, "types", ())] if part is not None)

    found = {kind for kind, data in KINDS.items() if has_any(msgspec.inspect.type_info(data))}
    assert found == set(FREE_FORM)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({name for data in KINDS.values() for name in data.__struct_fields__})
EVENTS = st.fixed_dictionaries(
    {"seq": st.integers(1, 100), "at_ms": st.integers(0, 10**13)},
    optional={
        "kind": st.sampled_from(sorted(KINDS)) | st.text(max_size=5), "run": VALUES, "attempt": VALUES, "rank": VALUES,
        "data": st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4) | VALUES,
    },
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, max_size=6))
def test_every_event_is_either_taken_or_rejected_with_a_reason(events):
    body = json.dumps({"agent": AGENT, "sent_at_ms": 1, "events": events}).replace("NaN", "null").encode()
    try:
        decoded = decode_batch(body.replace(b"-Infinity", b"null").replace(b"Infinity", b"null"))
    except Malformed:
        pytest.fail("every event has a readable seq")
    taken = [event.seq for event in decoded.events] + [bad.seq for bad in decoded.rejected]
    assert sorted(taken) == sorted(event["seq"] for event in events)
    assert all(bad.field and bad.reason for bad in decoded.rejected)
    for event in decoded.events:
        assert b"\\u0000" not in event.data.replace(b"\\\\", b"")
        json.loads(event.data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 300), st.integers(0, 20))
def test_any_bytes_are_a_batch_or_malformed(junk, at, length):
    good = text(step(loss="nan"), free({"a": [1, {"b": "c"}]}))
    for body in (junk, good[:at] + junk + good[at + length :]):
        try:
            decode_batch(body)
        except Malformed as error:
            assert error.field  # noqa: PT017


def test_decoding_leaves_what_it_was_given_alone():
    events = [free({"a": ["\0"]})]
    before = deepcopy(events)
    decode_batch(text(*events))
    assert events == before
