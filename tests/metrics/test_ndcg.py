import ir_measures
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import Qrel, ScoredDoc, nDCG

from olrank.errors import ConfigError
from olrank.metrics.ndcg import (
    EMPTY_RULES,
    count_empty,
    dcg,
    discounts,
    evaluate_ndcg,
    gains,
    ideal_dcg,
    mean_over_queries,
    ndcg,
    order_by_score,
)

KEY = jax.random.key(0)


def log2(x: float) -> float:
    return float(np.log2(x))


def all_true(*shape: int):
    return jnp.ones(shape, dtype=bool)


def test_gains_are_two_to_the_grade_minus_one():
    assert gains(jnp.array([0, 1, 2, 3, 4])).tolist() == [0, 1, 3, 7, 15]


def test_discounts_are_one_over_log2_of_one_plus_rank():
    np.testing.assert_allclose(discounts(3), [1 / log2(2), 1 / log2(3), 1 / log2(4)], rtol=1e-6)


def test_dcg_and_ndcg_of_a_list_are_as_by_hand():
    grades = jnp.array([1, 0, 2, 4])  # of which three are shown
    by_hand = 1 / log2(2) + 0 / log2(3) + 3 / log2(4)
    ideal_by_hand = 15 / log2(2) + 3 / log2(3) + 1 / log2(4)
    ideal = ideal_dcg(grades, all_true(4), 3)
    assert dcg(grades[:3], all_true(3)) == pytest.approx(by_hand, rel=1e-6)
    assert ideal == pytest.approx(ideal_by_hand, rel=1e-6)
    assert ndcg(grades[:3], all_true(3), ideal) == pytest.approx(by_hand / ideal_by_hand, rel=1e-6)


def test_slots_not_shown_and_padding_have_no_gain_whatever_stands_there():
    shown = jnp.array([True, True, False])
    assert dcg(jnp.array([2, 1, 4]), shown) == dcg(jnp.array([2, 1, -1]), shown)
    mask = jnp.array([True, False, True])
    assert ideal_dcg(jnp.array([1, 4, 2]), mask, 10) == ideal_dcg(
        jnp.array([1, 2]), all_true(2), 10
    )


def test_the_ideal_order_has_ndcg_one_and_a_query_without_relevant_documents_zero():
    grades = jnp.array([[4, 3, 1, 0], [0, 0, 0, 0]])
    ideal = ideal_dcg(grades, all_true(2, 4), 4)
    assert ndcg(grades, all_true(2, 4), ideal).tolist() == [1, 0]


fast_evaluate_ndcg = jax.jit(evaluate_ndcg, static_argnames="k")


def our_ndcg(scores, grades, k, max_docs=25):
    """NDCG of one query, padded to one size so that it is compiled once."""
    room = (0, max_docs - len(grades))
    mask = (jnp.arange(max_docs) < len(grades))[None]
    judged = jnp.asarray(np.pad(np.array(grades), room, constant_values=4))[None]
    predicted = jnp.asarray(np.pad(np.array(scores), room, constant_values=99.0))[None]
    ideal = ideal_dcg(judged, mask, k)
    return float(fast_evaluate_ndcg(KEY, predicted, judged, mask, ideal, k)[0])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 25), k=st.sampled_from([1, 5, 10]))
def test_ndcg_agrees_with_ir_measures_on_exponential_gains(data, n, k):
    grades = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any))
    # Distinct scores, because the other tool breaks ties by name.
    scores = data.draw(st.permutations([float(i) for i in range(n)]))
    # That tool's gain is the judgement itself, so 2^g - 1 goes in as the judgement.
    qrels = [Qrel("q", f"d{i}", 2**g - 1) for i, g in enumerate(grades)]
    run = [ScoredDoc("q", f"d{i}", s) for i, s in enumerate(scores)]
    theirs = ir_measures.calc_aggregate([nDCG @ k], qrels, run)[nDCG @ k]
    assert our_ndcg(scores, grades, k) == pytest.approx(theirs, abs=1e-5)


def test_ndcg_in_float64_agrees_with_ir_measures_to_nine_digits():
    rng = np.random.default_rng(0)
    grades, scores = rng.integers(0, 5, 200).tolist(), rng.permutation(200).astype(float)
    qrels = [Qrel("q", f"d{i}", 2**g - 1) for i, g in enumerate(grades)]
    run = [ScoredDoc("q", f"d{i}", s) for i, s in enumerate(scores)]
    theirs = ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10]
    with jax.enable_x64(True):
        assert our_ndcg(scores, grades, 10, 200) == pytest.approx(theirs, rel=1e-9)


def test_documents_are_ordered_from_the_best_score_down_with_padding_last():
    scores = jnp.array([0.5, 9.0, 2.0, -1.0, 7.0])
    mask = jnp.array([True, False, True, True, False])
    order = order_by_score(KEY, scores, mask).tolist()
    assert order[:3] == [2, 0, 3]
    assert set(order[3:]) == {1, 4}


def test_even_the_worst_scores_stand_above_padding():
    scores = jnp.array([0.0, -jnp.inf, 0.0, jnp.nan, 1.0])
    mask = jnp.array([False, True, False, True, True])
    assert order_by_score(KEY, scores, mask).tolist()[:3] == [4, 1, 3]


def test_all_orders_of_tied_documents_are_equally_likely():
    # Chi-square over 3! orders: 5 degrees of freedom exceed 35.9 with chance 1e-6; fixed seed.
    n_keys = 6_000
    keys = jax.random.split(KEY, n_keys)
    scores = jnp.array([0.0, 1.0, -0.0, 0.0])  # minus zero ties with zero
    orders = jax.jit(jax.vmap(order_by_score, in_axes=(0, None, None)))(keys, scores, all_true(4))
    assert (orders[:, 0] == 1).all()
    _, counts = np.unique(np.asarray(orders), axis=0, return_counts=True)
    assert len(counts) == 6
    assert ((counts - n_keys / 6) ** 2 / (n_keys / 6)).sum() < 35.9


@pytest.mark.parametrize("n_padding", [1, 3, 60, 1000])
def test_padding_does_not_change_how_ties_are_broken(n_padding):
    # Rests on JAX drawing random bits per index (jax_threefry_partitionable, its default): the
    # first n draws do not depend on how many follow. Should that change, this fails.
    n = 40
    scores = jnp.zeros(n)
    for seed in range(5):
        key = jax.random.key(seed)
        alone = order_by_score(key, scores, all_true(n))
        padded = order_by_score(key, jnp.zeros(n + n_padding), jnp.arange(n + n_padding) < n)
        assert padded[:n].tolist() == alone.tolist()


def test_ties_are_broken_alike_in_float32_and_float64():
    single = order_by_score(KEY, jnp.zeros(30), all_true(30)).tolist()
    with jax.enable_x64(True):
        assert order_by_score(KEY, jnp.zeros(30), all_true(30)).tolist() == single


def test_evaluation_of_a_padded_set_equals_each_query_alone_and_with_more_queries():
    rng = np.random.default_rng(1)
    sizes, max_docs, k = [1, 5, 12, 20], 20, 10
    scores = jnp.asarray(rng.integers(0, 3, (4, max_docs)).astype(float))  # many ties
    grades = jnp.asarray(rng.integers(0, 3, (4, max_docs)))
    mask = jnp.arange(max_docs) < jnp.array(sizes)[:, None]
    ideal = ideal_dcg(grades, mask, k)
    together = evaluate_ndcg(KEY, scores, grades, mask, ideal, k)
    for q, size in enumerate(sizes):
        upto = slice(0, q + 1)
        alone = evaluate_ndcg(
            KEY, scores[upto, :size], grades[upto, :size], mask[upto, :size], ideal[upto], k
        )
        assert float(alone[q]) == pytest.approx(float(together[q]), rel=1e-6)


def test_two_queries_with_the_same_ties_break_them_differently():
    # 30 tied documents in random order: the same order twice has chance 1 / 30!.
    grades = jnp.tile(jnp.arange(30) % 5, (8, 1))
    ideal = ideal_dcg(grades, all_true(8, 30), 10)
    found = evaluate_ndcg(KEY, jnp.zeros((8, 30)), grades, all_true(8, 30), ideal, 10)
    assert len(set(found.tolist())) > 1


VALUES = jnp.array([0.5, 0.25, jnp.nan])
HAS_RELEVANT = jnp.array([True, True, False])


@pytest.mark.parametrize(
    ("empty", "expected"),
    [
        ("skip", (0.5 + 0.25) / 2),
        ("zero", (0.5 + 0.25 + 0) / 3),
        ("one", (0.5 + 0.25 + 1) / 3),
    ],
)
def test_an_empty_query_counts_as_its_rule_says(empty, expected):
    assert mean_over_queries(VALUES, HAS_RELEVANT, empty) == pytest.approx(expected)


def test_a_mean_over_nothing_is_nan_and_an_unknown_rule_is_refused():
    assert jnp.isnan(mean_over_queries(VALUES, jnp.zeros(3, dtype=bool), "skip"))
    with pytest.raises(ConfigError, match='"skipped".*Did you mean "skip"'):
        mean_over_queries(VALUES, HAS_RELEVANT, "skipped")


@settings(max_examples=40, deadline=None)
@given(grades=st.lists(st.integers(0, 4), min_size=10, max_size=10), n_real=st.integers(0, 10))
def test_ndcg_never_leaves_zero_to_one(grades, n_real):
    mask = jnp.arange(10) < n_real
    ideal = ideal_dcg(jnp.array(grades), mask, 5)
    found = float(ndcg(jnp.array(grades)[:5], mask[:5], ideal))
    assert 0 <= found <= 1 + 1e-6


def test_queries_one_by_one_have_the_mean_of_the_set_under_every_rule():
    values, has_relevant = jnp.array([0.5, 0.25, 0.75]), jnp.array([True, False, True])
    found = {rule: count_empty(values, has_relevant, rule) for rule in EMPTY_RULES}
    assert found["zero"].tolist() == [0.5, 0.0, 0.75]
    assert found["one"].tolist() == [0.5, 1.0, 0.75]
    assert jnp.isnan(found["skip"]).tolist() == [False, True, False]
    for rule, each in found.items():
        mean = mean_over_queries(values, has_relevant, rule)
        assert float(jnp.nanmean(each)) == pytest.approx(float(mean))
