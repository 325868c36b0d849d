import gzip
import threading
import time
from datetime import UTC, datetime

import zstandard
from middlewatch_wire.limits import MAX_BODY_BYTES, MAX_EVENTS, MAX_UNPACKED_BYTES

from controlplane.events import queries
from controlplane.fleet import actions as fleet
from controlplane.ingest import rate
from tests.events.factories import beat, hello, step
from tests.ingest.conftest import body

INGEST = "/api/v1/ingest"


def test_a_batch_is_acknowledged_and_stored(server, token):
    answer = server.post(step(1), step(2), token=token)
    assert (answer.status, answer.body) == (200, {"ack": 2, "commands_waiting": 0, "next_in_ms": 5000})
    assert [event.data["step"] for event in queries.since(0, run="demo")] == [1, 2]


def test_a_batch_sent_again_changes_nothing(server, token):
    assert [server.post(step(1), token=token).body["ack"] for _ in range(2)] == [1, 1]
    assert len(queries.since(0, run="demo")) == 1


def test_gzip_and_zstd_are_understood(server, token):
    for n, (name, packed) in enumerate([("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)], 1):
        answer = server.request("POST", INGEST, packed(body(step(n))), token=token, Content_Encoding=name)
        assert (answer.status, answer.body["ack"]) == (200, n)


def test_other_encodings_are_refused(server, token):
    assert server.request("POST", INGEST, body(step(1)), token=token, Content_Encoding="br").status == 415


def test_a_damaged_archive_is_malformed(server, token):
    for name, packed in [("gzip", gzip.compress(body(step(1)))[:-4]), ("zstd", b"(\xb5/\xfd nonsense"), ("zstd", b"")]:
        answer = server.request("POST", INGEST, packed, token=token, Content_Encoding=name)
        assert (answer.status, answer.body["error"]) == (400, "malformed")


def test_a_body_over_the_limit_is_refused_before_it_is_read(server, token):
    answer = server.request("POST", INGEST, b" " * (MAX_BODY_BYTES + 1), token=token)
    assert (answer.status, answer.body["error"]) == (413, "too_large")


def test_a_bomb_is_refused_when_it_passes_the_limit(server, token):
    plain = b" " * (MAX_UNPACKED_BYTES + 1)
    for name, packed in [("gzip", gzip.compress(plain)), ("zstd", zstandard.ZstdCompressor().compress(plain))]:
        assert server.request("POST", INGEST, packed, token=token, Content_Encoding=name).status == 413


def test_too_many_events_ask_for_smaller_batches(server, token):
    answer = server.post(*[beat(n) for n in range(1, MAX_EVENTS + 2)], token=token)
    assert (answer.status, answer.body["error"]) == (413, "too_large")


def test_what_is_no_batch_is_malformed_and_names_the_field(server, token):
    for text, field in [(b"", "body"), (b"[]", "body"), (b"{}", "agent"), (b"\xff", "body"), (b"[" * 99999, "body")]:
        answer = server.request("POST", INGEST, text, token=token)
        assert (answer.status, answer.body["error"], answer.body["field"]) == (400, "malformed", field)


def test_an_event_without_a_number_is_named_by_index_and_field(server, token):
    text = body(step(1), step(2)).replace(b'"seq":2', b'"seq":"two"')
    answer = server.request("POST", INGEST, text, token=token)
    assert (answer.status, answer.body["index"], answer.body["field"]) == (400, 1, "events[1].seq")
    assert queries.since(0, run="demo") == []


def test_one_bad_event_does_not_lose_the_good_ones(server, token):
    text = body(step(1), step(2), step(3)).replace(b'"at_ms":2000', b'"at_ms":"soon"')
    answer = server.request("POST", INGEST, text, token=token)
    assert (answer.status, answer.body["ack"]) == (200, 3)
    assert answer.body["rejected"] == [
        {"seq": 2, "index": 1, "field": "at_ms", "reason": "Expected `int`, got `str`"},
    ]
    assert [event.seq for event in queries.since(0, run="demo")] == [1, 3]


def test_without_a_token_nothing_is_taken(server):
    for given in (None, "", "mwn_guess", "nonsense", "mwn_" + "x" * 500):
        answer = server.request("POST", INGEST, body(step(1)), token=given)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_token_speaks_for_its_node_only(server, token):
    answer = server.post(step(1), token=token, node="n02")
    assert (answer.status, answer.body["error"]) == (403, "wrong_node")


def test_an_older_life_is_refused_after_the_newer_said_hello(server, token):
    server.post(hello(1), token=token, incarnation="old")
    server.post(hello(1), token=token, incarnation="new")
    answer = server.post(beat(2), token=token, incarnation="old")
    assert (answer.status, answer.body["error"]) == (409, "superseded")


def test_two_machines_under_one_name_are_told_apart(server, token):
    server.post(hello(1, machine_id="a"), token=token, incarnation="a")
    answer = server.post(hello(1, machine_id="b"), token=token, incarnation="b")
    assert (answer.status, answer.body["error"]) == (409, "identity_conflict")
    assert server.post(beat(2), token=token, incarnation="a").status == 200


def test_a_node_that_runs_wild_is_told_when_to_come_back(server, token, monkeypatch):
    monkeypatch.setattr(rate.RateLimit.__init__, "__defaults__", (1.0, 2.0))
    with type(server)() as strict:
        answers = [strict.post(beat(n), token=token) for n in (1, 2, 3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1


def test_a_revoked_token_ends_within_seconds(server, token):
    assert server.post(beat(1), token=token).status == 200
    fleet.revoke("n01", datetime.now(UTC))
    assert until(lambda: server.post(beat(2), token=token).status == 401, within_s=5)


def test_a_rotated_token_works_and_so_does_the_old_one_for_a_while(server, token):
    fresh = server.request("POST", "/api/v1/token/rotate", token=token).body["token"]
    assert fresh != token
    assert server.post(beat(1), token=fresh).status == 200
    assert server.post(beat(2), token=token).status == 200


def test_an_enrolment_token_buys_as_many_tokens_as_it_has_uses(server):
    bought = fleet.create_enrolment_token("ana", datetime.now(UTC), uses=2)
    answers = [server.request("POST", "/api/v1/enrol", {"token": bought, "node": f"n{n}"}) for n in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 401]
    assert server.post(beat(1), node="n0", token=answers[0].body["token"]).status == 200


def test_enrolment_names_what_is_wrong(server):
    bought = fleet.create_enrolment_token("ana", datetime.now(UTC))
    answer = server.request("POST", "/api/v1/enrol", {"token": bought, "node": "../etc"})
    assert (answer.status, answer.body["field"]) == (400, "node")
    assert server.request("POST", "/api/v1/enrol", b"{").status == 400
    assert server.request("POST", "/api/v1/enrol", b"x" * 5000).status == 413


def test_ping_tells_the_time_to_anybody(server):
    assert abs(server.request("GET", "/api/v1/ping").body["now_ms"] / 1000 - time.time()) < 5


def test_unknown_addresses_and_methods_are_told(server):
    assert server.request("GET", "/api/v1/nothing").status == 404
    assert server.request("GET", INGEST).status == 405


def test_many_agents_at_once_each_get_their_own_answer(server, enrol):
    bought = {f"n{n}": enrol(f"n{n}") for n in range(8)}
    acks = {}

    def send(node):
        acks[node] = [server.post(step(n), token=bought[node], node=node).body["ack"] for n in range(1, 11)]

    threads = [threading.Thread(target=send, args=(node,)) for node in bought]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert acks == {node: list(range(1, 11)) for node in bought}
    assert len(queries.since(0, run="demo")) == 80


def until(condition, within_s):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
