import json
import re
from re import _constants as parts
from re import _parser as parser

import pytest

from controlplane.domain.signatures.match import match_line
from controlplane.domain.signatures.table import CHANNELS, CODE, by_code, by_id, table

LINES = [signature for signature in table() if signature.source != "health"]
MANY_WAYS = 20_000


@pytest.mark.parametrize("signature", LINES, ids=lambda signature: signature.id)
def test_a_line_of_a_row_is_recognised_as_that_row_and_no_other(signature):
    found = match_line(CHANNELS[signature.source], signature.example)
    assert found is not None
    assert found.signature is signature


@pytest.mark.parametrize(
    "signature", [item for item in table() if item.source == "health"], ids=lambda signature: signature.id
)
def test_the_example_of_a_counter_holds_that_counter(signature):
    value = json.loads(signature.example)
    for part in signature.counter.split("."):
        value = value[part]
    assert value


def test_ids_and_codes_name_one_row_each():
    assert len(by_id()) == len(table())
    assert len(by_code()) == sum(1 for signature in table() if CODE.fullmatch(signature.match))


def test_every_row_says_in_words_what_happened_and_where_that_is_known_from():
    for signature in table():
        assert signature.sentence
        assert signature.reference
        assert not signature.sentence.endswith(".")
        assert re.match(r"[a-z]", signature.sentence), signature.id


def test_what_condemns_weighs_enough_and_what_follows_weighs_against():
    for signature in table():
        if signature.action == "quarantine_now":
            assert signature.weight >= 6, signature.id
        if signature.acts:
            assert signature.weight >= 3, signature.id
        if "consequence" in signature.repeat:
            assert signature.weight <= 0, signature.id
            assert not signature.acts, signature.id


@pytest.mark.parametrize(
    ("code", "weight", "action"),
    [
        ("xid 13", 2, "restart"),
        ("xid 31", 2, "restart"),
        ("xid 43", 1, "count"),
        ("xid 45", -2, "none"),
        ("xid 48", 6, "quarantine_now"),
        ("xid 63", 4, "drain_at_save"),
        ("xid 64", 6, "quarantine_now"),
        ("xid 74", 6, "drain_at_save"),
        ("xid 79", 6, "quarantine_now"),
        ("xid 92", 2, "count"),
        ("xid 94", 2, "restart"),
        ("xid 95", 6, "quarantine_now"),
        ("xid 119", 6, "quarantine_now"),
        ("xid 120", 6, "quarantine_now"),
    ],
)
def test_the_codes_that_were_ruled_on_are_as_ruled(code, weight, action):
    assert (by_code()[code].weight, by_code()[code].action) == (weight, action)


@pytest.mark.parametrize("signature", [item for item in table() if item.pattern], ids=lambda signature: signature.id)
def test_no_pattern_can_backtrack_far(signature):
    assert _ways(parser.parse(signature.pattern.pattern)) <= MANY_WAYS


def _ways(tree, depth=0):
    """In how many ways the repeats of a pattern can share a text: repeats multiply, alternatives do not."""
    ways = 1
    for operation, value in tree:
        if operation in (parts.MAX_REPEAT, parts.MIN_REPEAT, parts.POSSESSIVE_REPEAT):
            low, high, inner = value
            assert depth == 0, "a repeat inside a repeat"
            assert high is not parts.MAXREPEAT, "an unbounded repeat"
            ways *= (high - low + 1) * _ways(inner, depth + 1)
        elif operation is parts.SUBPATTERN:
            ways *= _ways(value[-1], depth)
        elif operation is parts.BRANCH:
            ways *= max(_ways(branch, depth) for branch in value[1])
    return ways
