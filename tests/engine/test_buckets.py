"""Padded sizes: every query fits, few sizes, little waste."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from olrank.data.synthetic import synthetic_folds
from olrank.engine.buckets import bucket_sizes, shared_sizes


def padded(sizes, buckets):
    return np.array([next(b for b in buckets if b >= size) for size in sizes])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.integers(1, 5))
def test_every_query_fits_and_no_bucket_is_empty(sizes, n_buckets):
    buckets = bucket_sizes(sizes, n_buckets)
    assert 1 <= len(buckets) <= n_buckets
    assert list(buckets) == sorted(set(buckets))
    assert set(padded(sizes, buckets)) == set(buckets)
    assert all(bucket % 16 == 0 for bucket in buckets)
    assert buckets[-1] - max(sizes) < 16


def test_cuts_stand_where_they_save_the_most_pairs():
    # Nine queries of 16, one of 160. One bucket pads all ten to 160^2 pairs.
    assert bucket_sizes([16] * 9 + [160], 1) == (160,)
    assert bucket_sizes([16] * 9 + [160], 2) == (16, 160)
    # A third level with few queries is not worth a cut of its own when only two are allowed:
    # {16, 32 | 160} costs 10 * 32^2 + 160^2, {16 | 32, 160} costs 9 * 16^2 + 2 * 160^2.
    assert bucket_sizes([16] * 9 + [32] + [160], 2) == (32, 160)


@pytest.mark.parametrize("n_buckets", [2, 3])
def test_no_other_choice_of_cuts_costs_less(n_buckets):
    sizes = np.random.default_rng(0).lognormal(3.5, 0.8, 40).astype(int) + 1
    levels = np.unique(-(-sizes // 16) * 16)

    def work(buckets):
        return (padded(sizes, buckets).astype(float) ** 2).sum()

    from itertools import combinations

    every = [
        (*inner, levels[-1]) for n in range(n_buckets) for inner in combinations(levels[:-1], n)
    ]
    assert work(bucket_sizes(sizes, n_buckets)) == min(work(buckets) for buckets in every)


def test_sizes_for_several_parts_hold_the_largest_query_of_each():
    fold = synthetic_folds("small", queries=(20, 5, 40), seed=3)
    parts = (fold.train, fold.test)
    largest = max(int(part.sizes.max()) for part in parts)
    found = shared_sizes(parts)
    assert found[-1] - 16 < largest <= found[-1]
    assert found == bucket_sizes(np.concatenate([part.sizes for part in parts]))
