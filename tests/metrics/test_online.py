import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olrank.metrics.online import (
    certain_ratio,
    cumulative_ndcg,
    examined_regret,
    max_cumulative_ndcg,
    pairwise_regret,
    running_cumulative_ndcg,
)


def flags(*values: int):
    return jnp.array(values, dtype=bool)


def test_the_first_round_counts_fully_and_later_ones_by_powers_of_gamma():
    ndcgs = jnp.array([1.0, 0.5, 0.25])
    after = [1.0, 1.0 + 0.9 * 0.5, 1.0 + 0.9 * 0.5 + 0.9**2 * 0.25]
    np.testing.assert_allclose(running_cumulative_ndcg(ndcgs, gamma=0.9), after, rtol=1e-6)
    assert cumulative_ndcg(ndcgs, gamma=0.9) == pytest.approx(after[-1], rel=1e-6)


@pytest.mark.parametrize(
    ("n_rounds", "published"), [(1000, 787.1), (5000, 1835.9), (10000, 1986.5)]
)
def test_the_most_a_run_can_reach_is_the_published_number(n_rounds, published):
    # Published with one decimal.
    assert max_cumulative_ndcg(n_rounds) == pytest.approx(published, abs=0.05)
    assert cumulative_ndcg(jnp.ones(n_rounds)) == pytest.approx(published, abs=0.05)
    assert running_cumulative_ndcg(jnp.ones(n_rounds))[-1] == pytest.approx(published, abs=0.05)


def test_without_discount_the_most_is_the_number_of_rounds():
    assert max_cumulative_ndcg(250, gamma=1.0) == 250
    assert cumulative_ndcg(jnp.ones(250), gamma=1.0) == 250


def test_replicas_are_summed_apart():
    ndcgs = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    assert cumulative_ndcg(ndcgs, gamma=0.5).tolist() == [1.0, 0.5]
    assert running_cumulative_ndcg(ndcgs, gamma=0.5).tolist() == [[1.0, 1.0], [0.0, 0.5]]


fast_regret = jax.jit(pairwise_regret, static_argnames="n_grades")


def regret_of(order, grades, k) -> int:
    """Regret of showing the first k of an order of all documents; padded, so compiled once."""
    n_slots, max_docs, garbage = 10, 12, 4
    grades_in_order, candidates = np.full(n_slots, garbage), np.full(max_docs, garbage)
    top = np.asarray(grades)[np.asarray(order)[:k]]
    grades_in_order[: len(top)], candidates[: len(grades)] = top, grades
    shown, mask = np.arange(n_slots) < len(top), np.arange(max_docs) < len(grades)
    return int(fast_regret(grades_in_order, shown, candidates, mask, n_grades=5))


def kendall(order, grades, k) -> int:
    """Literally: pairs with their upper document shown and a strictly better one below."""
    pairs = itertools.combinations(range(len(order)), 2)
    return sum(upper < k and grades[order[lower]] > grades[order[upper]] for upper, lower in pairs)


def test_regret_counts_shown_above_better_shown_and_above_better_unshown():
    # Shown: grades 1, 0, 2. Unshown: 2, 0.
    # 1 stands above two of grade 2; 0 above two of grade 2; 2 above nothing better.
    assert regret_of([0, 1, 2, 3, 4], [1, 0, 2, 2, 0], k=3) == 2 + 2 + 0


def test_the_ideal_list_and_lists_of_equal_grades_have_no_regret():
    assert regret_of([0, 1, 2, 3], [4, 2, 2, 0], k=2) == 0
    assert regret_of([3, 1, 0, 2], [2, 2, 2, 2], k=2) == 0


def test_a_list_of_nothing_has_no_regret():
    nothing = jnp.zeros(3, dtype=bool)
    grades = jnp.array([0, 1, 2])
    assert pairwise_regret(grades, nothing, grades, flags(1, 1, 1), 3) == 0


@settings(max_examples=80, deadline=None)
@given(data=st.data(), n=st.integers(1, 12), k=st.sampled_from([1, 3, 10]))
def test_regret_equals_the_kendall_distance_counted_pair_by_pair(data, n, k):
    grades = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    order = data.draw(st.permutations(range(n)))
    assert regret_of(order, grades, k) == kendall(order, grades, k)


def test_with_everything_shown_and_distinct_grades_regret_is_the_number_of_inversions():
    for order in itertools.permutations(range(4)):
        # Document i has grade 3 - i, so the order 0, 1, 2, 3 is ideal.
        inversions = sum(a > b for a, b in itertools.combinations(order, 2))
        assert regret_of(order, [3, 2, 1, 0], k=4) == inversions


def test_examined_regret_counts_only_pairs_that_were_both_examined():
    grades = jnp.array([0, 1, 0, 2])
    assert examined_regret(grades, flags(1, 1, 1, 1)) == 2 + 1 + 1  # below slot 0, 1 and 2
    assert examined_regret(grades, flags(1, 1, 1, 0)) == 1
    assert examined_regret(grades, flags(1, 0, 0, 1)) == 1
    assert examined_regret(grades, flags(0, 0, 0, 1)) == 0
    assert examined_regret(grades, flags(0, 0, 0, 0)) == 0


@settings(max_examples=40, deadline=None)
@given(data=st.data(), k=st.integers(1, 8))
def test_regret_of_an_all_examined_list_of_all_candidates_is_the_same_both_ways(data, k):
    grades = data.draw(st.lists(st.integers(0, 4), min_size=k, max_size=k))
    padded = jnp.array(grades + [4] * (8 - k))
    ours = examined_regret(padded, jnp.arange(8) < k)
    assert int(ours) == regret_of(range(k), grades, k)


def test_the_certain_ratio_counts_unordered_pairs_joined_by_an_edge():
    certain = jnp.zeros((4, 4), dtype=bool).at[0, 1].set(True).at[3, 0].set(True)
    assert certain_ratio(certain, flags(1, 1, 1, 1)) == pytest.approx(2 / 6)
    assert certain_ratio(certain, flags(1, 1, 1, 0)) == pytest.approx(1 / 3)
    assert certain_ratio(certain, flags(1, 1, 0, 0)) == 1


def test_an_edge_given_in_both_directions_is_one_pair():
    certain = jnp.ones((3, 3), dtype=bool)
    assert certain_ratio(certain, flags(1, 1, 1)) == 1


def test_a_list_of_one_or_none_has_no_certain_ratio():
    certain = jnp.ones((3, 3), dtype=bool)
    assert jnp.isnan(certain_ratio(certain, flags(1, 0, 0)))
    assert jnp.isnan(certain_ratio(certain, flags(0, 0, 0)))


def test_everything_can_be_compiled_and_mapped_over_replicas():
    rng = np.random.default_rng(0)
    grades = jnp.asarray(rng.integers(0, 5, (3, 6)))
    shown = jnp.arange(4) < jnp.array([4, 2, 1])[:, None]
    mask = jnp.ones((3, 6), dtype=bool)
    certain = jnp.asarray(rng.integers(0, 2, (3, 4, 4)), dtype=bool)
    regret = jax.jit(jax.vmap(lambda g, s, c, m: pairwise_regret(g, s, c, m, 5)))
    found = regret(grades[:, :4], shown, grades, mask)
    expected = [kendall(range(6), g, int(s.sum())) for g, s in zip(grades, shown, strict=True)]
    assert found.tolist() == expected
    ratios = jax.jit(jax.vmap(certain_ratio))(certain, shown)
    assert jnp.isfinite(ratios).tolist() == [True, True, False]
    assert jax.jit(jax.vmap(examined_regret))(grades[:, :4], shown).shape == (3,)


def test_in_float64_sums_are_float64():
    with jax.enable_x64(True):
        total = cumulative_ndcg(jnp.ones(5000))
        assert total.dtype == jnp.float64
        assert float(total) == pytest.approx((1 - 0.9995**5000) / (1 - 0.9995), rel=1e-12)
