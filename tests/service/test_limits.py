"""Token buckets, by hand."""

from olrank.service.limits import Buckets


def test_a_bucket_lets_a_burst_through_and_then_the_rate():
    buckets = Buckets(rate=2.0, burst=3)
    assert [buckets.wait_s("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.wait_s("a", 0.0) == 1 / 2.0
    assert buckets.wait_s("b", 0.0) == 0.0
    assert buckets.wait_s("a", 0.25) == 0.25  # half a token is there
    assert buckets.wait_s("a", 0.5) == 0.0
    assert buckets.wait_s("a", 100.0) == 0.0
    assert [buckets.wait_s("a", 100.0) for _ in range(3)] == [0.0, 0.0, 0.5]  # never above burst


def test_no_rate_is_no_limit():
    buckets = Buckets(rate=0.0, burst=1)
    assert [buckets.wait_s("a", 0.0) for _ in range(5)] == [0.0] * 5


def test_clients_that_are_gone_are_forgotten():
    buckets = Buckets(rate=1.0, burst=1)
    for client in range(20_000):
        buckets.wait_s(str(client), 0.0)
    assert len(buckets._buckets) == 10_000
    assert buckets.wait_s("0", 0.0) == 0.0
    assert buckets.wait_s("19999", 0.0) == 1.0
