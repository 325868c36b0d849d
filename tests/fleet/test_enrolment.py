import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.domain.errors import Conflict, Invalid, NotFound, Unauthenticated
from controlplane.events import log
from controlplane.fleet import actions, tokens
from controlplane.fleet.enrolment import MAX_TOKENS, MAX_TTL, MAX_USES, ROTATION_GRACE
from controlplane.fleet.models import EnrolmentToken, Node, NodeToken

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


@pytest.mark.django_db
def test_a_bought_token_speaks_for_the_node_and_is_stored_as_a_digest_only():
    token = actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    identity = tokens.node_of(token, NOW)
    assert identity.name == "n01"
    assert token not in str(NodeToken.objects.values_list())
    assert Node.objects.get().state == "unknown"


@pytest.mark.django_db
def test_an_enrolment_token_ends_with_its_time_and_its_uses():
    token = actions.create_enrolment_token("ana", NOW, 1, timedelta(minutes=5))
    with pytest.raises(Unauthenticated):
        actions.enrol(token, "n01", NOW + timedelta(minutes=5))
    actions.enrol(token, "n01", NOW)
    with pytest.raises(Unauthenticated):
        actions.enrol(token, "n02", NOW)
    with pytest.raises(Unauthenticated):
        actions.enrol("mwe_guess", "n02", NOW)


@pytest.mark.django_db
def test_limits_of_an_enrolment_token_are_checked():
    for uses, ttl in ((0, timedelta(1)), (MAX_USES + 1, timedelta(1)), (1, timedelta(0)), (1, MAX_TTL * 2)):
        with pytest.raises(Invalid):
            actions.create_enrolment_token("ana", NOW, uses, ttl)


@pytest.mark.django_db
def test_names_that_could_mean_a_path_are_refused_and_cost_no_use():
    token = actions.create_enrolment_token("ana", NOW)
    for name in ("", "../x", "a b", "-x", "x" * 101, "n\n01"):
        with pytest.raises(Invalid):
            actions.enrol(token, name, NOW)
    assert EnrolmentToken.objects.get().uses_left == 1


@pytest.mark.django_db(transaction=True)
def test_the_last_use_is_sold_once_to_two_at_the_same_time():
    token = actions.create_enrolment_token("ana", NOW)
    bought, refused = [], []

    def buy(name):
        try:
            bought.append(actions.enrol(token, name, NOW))
        except Unauthenticated:
            refused.append(name)
        finally:
            connection.close()

    buyers = [threading.Thread(target=buy, args=(f"n{n}",)) for n in range(4)]
    for buyer in buyers:
        buyer.start()
    for buyer in buyers:
        buyer.join()
    assert (len(bought), len(refused)) == (1, 3)


@pytest.mark.django_db
def test_rotation_leaves_the_old_token_a_while():
    old = actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    new = actions.rotate(tokens.node_of(old, NOW), NOW)
    assert tokens.node_of(new, NOW).name == "n01"
    assert tokens.node_of(old, NOW + ROTATION_GRACE / 2).name == "n01"
    assert tokens.node_of(old, NOW + ROTATION_GRACE) is None


@pytest.mark.django_db
def test_a_revocation_ends_every_token_of_a_node():
    old = actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    actions.rotate(tokens.node_of(old, NOW), NOW)
    assert actions.revoke("n01", NOW) == 2
    assert tokens.node_of(old, NOW) is None
    with pytest.raises(NotFound):
        actions.revoke("n99", NOW)


@pytest.mark.django_db
def test_an_old_token_does_not_live_on_by_rotating_again_and_tokens_are_bounded():
    old = actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    speaker, later = tokens.node_of(old, NOW), NOW + ROTATION_GRACE / 2
    for _ in range(MAX_TOKENS - 1):
        actions.rotate(speaker, later if NodeToken.objects.count() > 1 else NOW)
    with pytest.raises(Conflict, match="tokens already"):
        actions.rotate(speaker, later)
    assert tokens.node_of(old, NOW + ROTATION_GRACE) is None


@pytest.mark.django_db
def test_what_is_no_token_is_nobody():
    assert [tokens.node_of(text, NOW) for text in ("", "mwn_", "mwn_" + "x" * 300, "mwe_x", "ü")] == [None] * 5


def hear(node, now=NOW):
    """Have an agent of this name heard at `now`."""
    hello = make_event("node.hello", at_ms=1, seq=1, hardware={"machine_id": node})
    batch = Batch(agent=AgentIdentity(node=node, incarnation="life"), sent_at_ms=1, events=[hello])
    with connection.cursor() as cursor:
        log.append(cursor, [decode_batch(encode_batch(batch))], now)


@pytest.mark.django_db
def test_the_name_of_a_living_node_is_not_sold_again_and_costs_no_use():
    actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    hear("n01")
    token = actions.create_enrolment_token("mallory", NOW)
    with pytest.raises(Conflict, match="enrolled and alive"):
        actions.enrol(token, "n01", NOW + timedelta(seconds=29))
    assert NodeToken.objects.count() == 1
    assert actions.enrol(token, "n02", NOW)


@pytest.mark.django_db
def test_a_machine_that_was_installed_anew_is_enrolled_once_its_old_life_is_silent():
    old = actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    hear("n01")
    later = NOW + timedelta(seconds=31)
    assert actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", later)
    assert tokens.node_of(old, later).name == "n01"


@pytest.mark.django_db
def test_a_living_node_is_enrolled_anew_after_its_tokens_were_revoked():
    actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
    hear("n01")
    actions.revoke("n01", NOW)
    assert actions.enrol(actions.create_enrolment_token("ana", NOW), "n01", NOW)
