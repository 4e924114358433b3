"""Plackett-Luce lists: exact probabilities, draws, and PDGD's swap weight."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import jax
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys, lists_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import plackett_luce as oracle

from olrank.explore import plackett_luce

SIZE, K = 5, 3
FEW, MANY = 16, 8_000
quick = partial(settings, max_examples=20, deadline=None)
small = arrays(float, SIZE, elements=st.floats(-5, 5, allow_subnormal=False))
huge = arrays(np.float32, SIZE, elements=st.floats(-1e4, 1e4, width=32, allow_subnormal=False))


@jax.jit
def draws(keys, scores, mask):
    many = jax.vmap(lambda key: plackett_luce.draw(key, scores, mask, K))(keys)
    return many, jax.vmap(plackett_luce.swap_weights)(many.memo, many.shown)


def drawn(scores, mask=None, seed: int = 0, n: int = FEW):
    """n rankings and their swap weights; MANY are drawn, as another number compiles anew."""
    mask = np.ones(len(scores), bool) if mask is None else mask
    many = draws(keys(seed, MANY), np.asarray(scores), mask)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n], many)


log_p = jax.jit(plackett_luce.log_p_list)


def test_the_probability_of_a_list_by_hand():
    scores, rest = np.log([3.0, 2.0, 7.0]), np.log(4.0 + 1.0)
    two, one = np.array([True, True, False]), np.array([True, False, False])
    assert np.exp(log_p(scores, two, rest)) == pytest.approx(3 / (3 + 2 + 5) * 2 / (2 + 5))
    assert np.exp(log_p(scores, two, -np.inf)) == pytest.approx(3 / (3 + 2))
    assert np.exp(log_p(scores, one, rest)) == pytest.approx(3 / (3 + 5))


def test_the_swap_weight_by_hand():
    memo = plackett_luce.Memo(np.log([3.0, 2.0]), np.log(5.0))
    p, p_swapped = 3 / 10 * 2 / 7, 2 / 10 * 3 / 8
    rho = jax.jit(plackett_luce.swap_weights)(memo, np.array([True, True]))
    assert float(rho[0, 1]) == pytest.approx(p_swapped / (p + p_swapped))
    assert float(rho[1, 0]) == float(rho[0, 1])


@quick()
@given(scores=small, mask=arrays(bool, SIZE), seed=st.integers(0, 2**31))
def test_every_draw_is_logged_with_the_oracles_probability_and_weights(scores, mask, seed):
    at = np.flatnonzero(mask)
    with jax.enable_x64(True):
        ranking, rho = drawn(scores, mask, seed=seed)
    n = min(at.size, K)
    for row, documents in enumerate(lists_of(ranking.order, ranking.shown)):
        shown = tuple(np.searchsorted(at, documents).tolist())
        assert len(set(shown)) == n
        assert all(mask[d] for d in documents)
        p = oracle.p_list(scores[at], shown)
        assert ranking.log_p_shown[row] == pytest.approx(np.log(p), rel=1e-9, abs=1e-9)
        assert ranking.choices[row].tolist() == [at.size - s if s < n else 1 for s in range(K)]
        expected = np.zeros((K, K))
        for a in range(n):
            for b in range(n):
                expected[a, b] = oracle.pair_weight(scores[at], shown, a, b)
        np.testing.assert_allclose(rho[row], expected, rtol=1e-9)
    assert not ranking.certain.any()


@pytest.mark.parametrize("n_docs", [1, 2, 4, 5])
def test_draws_follow_the_exact_enumeration(n_docs):
    scores = np.array([0.0, 1.0, -1.0, 0.5, 2.0], np.float32)
    ranking, _ = drawn(scores, np.arange(SIZE) < n_docs, n=MANY, seed=1)
    assert_drawn_as(
        oracle.lists(scores[:n_docs].astype(float), K), lists_of(ranking.order, ranking.shown)
    )


def test_the_probabilities_of_all_lists_add_up_to_one(x64):
    scores = np.array([0.0, 1.0, -1.0, 0.5, 2.0])
    total = 0.0
    for shown in permutations(range(SIZE), K):
        rest = np.log(sum(np.exp(scores[d]) for d in range(SIZE) if d not in shown))
        p = np.exp(log_p(scores[list(shown)], np.ones(K, bool), rest))
        assert p == pytest.approx(oracle.p_list(scores, shown))
        total += p
    assert total == pytest.approx(1.0)


slopes = jax.jit(jax.vmap(jax.grad(plackett_luce.log_p_list, (0, 2))))


@quick()
@given(scores=huge, mask=arrays(bool, SIZE))
def test_huge_scores_stay_finite(scores, mask):
    ranking, rho = drawn(scores, mask)
    assert np.all(np.isfinite(ranking.log_p_shown))
    assert np.all(ranking.log_p_shown <= 1e-2)  # a rounding of 1e4 in single precision
    assert np.all((rho >= 0) & (rho <= 1))
    to_scores, to_rest = slopes(ranking.memo.scores, ranking.shown, ranking.memo.log_rest)
    assert np.all(np.isfinite(to_scores))
    assert np.all(np.isfinite(to_rest))
    assert not np.asarray(to_scores)[~ranking.shown].any()


def test_the_gradient_of_the_log_probability_by_hand(x64):
    """d log P / d f of the first slot is 1 - its own chance there, of the second minus both."""
    scores, rest = np.log([[3.0, 2.0, 7.0]]), np.log([5.0])
    to_scores, to_rest = slopes(scores, np.array([[True, True, False]]), rest)
    np.testing.assert_allclose(to_scores, [[1 - 3 / 10, 1 - 2 / 10 - 2 / 7, 0]], atol=1e-12)
    np.testing.assert_allclose(to_rest, [-5 / 10 - 5 / 7], atol=1e-12)


@pytest.mark.parametrize("n_docs", [2, 5])
def test_padding_changes_nothing(n_docs):
    scores = np.array([0.0, 1.0, -1.0, 0.5, 2.0], np.float32)
    alone, rho = drawn(scores, np.arange(SIZE) < n_docs)
    wider = np.concatenate([scores[:n_docs], [1e6, np.nan, np.inf, 0, 0]])[:7].astype(np.float32)
    among, rho_among = drawn(wider, np.arange(7) < n_docs)
    np.testing.assert_array_equal(alone.shown, among.shown)
    np.testing.assert_array_equal(alone.order[alone.shown], among.order[among.shown])
    assert np.all(among.order[~among.shown] >= n_docs), "a document fills an unshown slot"
    np.testing.assert_allclose(alone.log_p_shown, among.log_p_shown, rtol=1e-6)
    np.testing.assert_allclose(alone.memo.scores, among.memo.scores)
    np.testing.assert_allclose(alone.memo.log_rest, among.memo.log_rest, rtol=1e-6)
    np.testing.assert_allclose(rho, rho_among, rtol=1e-6)


def test_more_slots_than_documents_show_every_document_once():
    ranking = jax.jit(plackett_luce.draw, static_argnums=3)(
        jax.random.key(0), np.zeros(2, np.float32), np.ones(2, bool), 4
    )
    assert ranking.shown.tolist() == [True, True, False, False]
    assert sorted(ranking.order[:2].tolist()) == [0, 1]
    assert np.exp(ranking.log_p_shown) == pytest.approx(1 / 2)


def test_a_list_without_candidates_is_empty_and_certain():
    ranking, rho = drawn(np.zeros(SIZE, np.float32), np.zeros(SIZE, bool))
    assert not ranking.shown.any()
    assert not ranking.log_p_shown.any()
    assert not rho.any()
    assert np.all(ranking.memo.log_rest == -np.inf)
