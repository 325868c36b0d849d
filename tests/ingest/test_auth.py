import asyncio
import time

import pytest

from controlplane.ingest import auth
from controlplane.ingest.auth import BLIND_TTL_S, TOLD_TTL_S, UNKNOWN_TTL_S, Tokens
from controlplane.ingest.http import Problem


class NoDatabase:
    """Answers token look-ups from a list and counts them."""

    def __init__(self, rows=()):
        self.found, self.asked = list(rows), 0

    async def rows(self, *_):
        self.asked += 1
        return self.found


def identify(tokens, *, told):
    return asyncio.run(tokens.identify({"headers": [(b"authorization", b"Bearer mwn_x")]}, told=told))


@pytest.mark.parametrize(("told", "ttl"), [(True, TOLD_TTL_S), (False, BLIND_TTL_S)])
def test_a_token_is_remembered_as_long_as_its_revocation_would_be_heard(monkeypatch, told, ttl):
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    database = NoDatabase([(1, "n01", "d", None)])
    tokens = Tokens(database)
    for at in (1000.0, 1000.0 + ttl - 0.1, 1000.0 + ttl):
        clock[0] = at
        assert identify(tokens, told=told).name == "n01"
    assert database.asked == 2


def test_an_unknown_token_is_not_looked_up_with_every_request(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    database = NoDatabase()
    tokens = Tokens(database)
    for at in (1000.0, 1000.0 + UNKNOWN_TTL_S - 0.1, 1000.0 + UNKNOWN_TTL_S):
        clock[0] = at
        with pytest.raises(Problem) as problem:
            identify(tokens, told=True)
        assert problem.value.status == 401
    assert database.asked == 2


def test_a_node_whose_tokens_changed_is_looked_up_anew():
    database = NoDatabase([(1, "n01", "d", None)])
    tokens = Tokens(database)
    identify(tokens, told=True)
    tokens.forget_node(2)
    identify(tokens, told=True)
    assert database.asked == 1
    tokens.forget_node(1)
    identify(tokens, told=True)
    assert database.asked == 2


def test_what_was_looked_up_before_anybody_listened_is_looked_up_anew_and_is_no_guess(monkeypatch):
    monkeypatch.setattr(auth, "GUESSES_BURST", 1.0)
    database = NoDatabase([(1, "n01", "d", None)])
    tokens = Tokens(database)
    identify(tokens, told=False)
    database.found = []
    tokens.forget_all()
    with pytest.raises(Problem) as problem:
        identify(tokens, told=True)
    assert problem.value.status == 401


def test_a_token_revoked_while_it_is_looked_up_is_not_remembered_as_good():
    database = NoDatabase([(1, "n01", "d", None)])
    tokens = Tokens(database)
    before = database.rows

    async def rows(*asked):
        tokens.forget_node(1)
        return await before(*asked)

    database.rows = rows
    identify(tokens, told=True)
    database.rows, database.found = before, []
    with pytest.raises(Problem):
        identify(tokens, told=True)


def test_whoever_guesses_tokens_does_not_crowd_out_those_who_hold_one(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(auth, "GUESSES_BURST", 3.0)
    monkeypatch.setattr(auth, "MAX_REMEMBERED", 3)
    database = NoDatabase([(1, "n01", "d", None)])
    tokens = Tokens(database)
    identify(tokens, told=True)
    database.found = []
    statuses = []
    for number in range(4):
        with pytest.raises(Problem) as problem:
            asyncio.run(tokens.identify({"headers": [(b"authorization", b"Bearer mwn_%d" % number)]}, told=True))
        statuses.append(problem.value.status)
    assert statuses == [401, 401, 429, 429]
    assert database.asked == 3
    assert identify(tokens, told=True).name == "n01"
