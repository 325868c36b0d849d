from controlplane.ingest.rate import RateLimit


def test_a_bucket_refills_with_time():
    limit = RateLimit(rate_per_s=2.0, burst=3.0)
    assert [limit.spend("n", 0.0) for _ in range(4)] == [None, None, None, 1]
    assert limit.spend("n", 0.5) is None
    assert limit.spend("n", 0.5) == 1
    assert [limit.spend("n", 100.0) for _ in range(4)] == [None, None, None, 1]


def test_a_slow_rate_tells_the_whole_wait():
    limit = RateLimit(rate_per_s=0.1, burst=1.0)
    limit.spend("n", 0.0)
    assert limit.spend("n", 0.0) == 10


def test_nodes_have_buckets_of_their_own_and_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr("controlplane.ingest.rate.MAX_BUCKETS", 10)
    limit = RateLimit(rate_per_s=1.0, burst=1.0)
    assert all(limit.spend(f"n{n}", 0.0) is None for n in range(50))
    assert len(limit._buckets) <= 10
