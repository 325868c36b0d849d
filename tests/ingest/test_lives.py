from controlplane.ingest import lives


def test_an_agent_that_claims_a_new_life_with_every_batch_has_to_wait_and_its_last_ones_go_on():
    known = lives.Lives()
    waits = [known.admit("n01", f"life {number}", 0.0) for number in range(int(lives.BURST) + 1)]
    assert waits == [None] * int(lives.BURST) + [5]
    assert known.admit("n01", f"life {int(lives.BURST) - 1}", 0.0) is None
    assert known.admit("n02", "life 0", 0.0) is None
    assert known.admit("n01", "one more", 5.0) is None


def test_two_machines_under_one_name_speak_in_turn_without_waiting():
    known = lives.Lives()
    assert all(known.admit("n01", name, 0.0) is None for _ in range(200) for name in ("one", "two"))
