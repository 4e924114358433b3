"""Confidence widths: Lemma 1 and Definition 1, by hand and against the oracle's dense algebra."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import confidence as oracle

from olrank.errors import ConfigError
from olrank.explore import confidence

P, N_PAIRS, N_ROUNDS, N_DOCS = 5, 4, 12, 6
KINDS = ("diagonal", "full")
EVERYONE = np.ones(N_DOCS, bool)

seeds = st.integers(0, 2**32 - 1)
quick = partial(settings, max_examples=30, deadline=None)


@partial(jax.jit, static_argnums=0)
def learned(name, prior, pairs, weights):
    """The confidence after one update for every leading entry of pairs and weights."""
    way = confidence.kind(name)
    start = way.init(pairs.shape[-1], prior)
    return jax.lax.scan(lambda c, pw: (way.update(c, *pw), None), start, (pairs, weights))[0]


@partial(jax.jit, static_argnums=0)
def norms(name, known, tangents, mask):
    return confidence.pair_norms(confidence.kind(name), known, tangents, mask)


@partial(jax.jit, static_argnums=0)
def start(name):
    return confidence.kind(name).init(P, 1.0)


def kept_of(name, known):
    return known.A if name == "diagonal" else known.inverse


def weighted_pairs(seed: int) -> tuple[float, np.ndarray, np.ndarray]:
    """A prior, [rounds, pairs, p] tangent differences and [rounds, pairs] weights, some 0."""
    rng = np.random.default_rng(seed)
    weights = rng.random((N_ROUNDS, N_PAIRS)) * (rng.random((N_ROUNDS, N_PAIRS)) < 0.7)
    return 10 ** rng.uniform(-2, 1), rng.normal(size=(N_ROUNDS, N_PAIRS, P)), weights


def dense_a(name: str, prior: float, pairs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The oracle's A after all updates; w g g^T is the update by sqrt(w) g against 0."""
    A = oracle.initial(P, prior) if name == "full" else oracle.initial_diagonal(P, prior)
    for g, w in zip(pairs.reshape(-1, P), weights.reshape(-1), strict=True):
        A = oracle.update(A, np.array([np.sqrt(w) * g, 0 * g]), [(0, 1)], m=1)
    return A


def test_the_first_update_by_hand():
    pair, half = jnp.array([[1.0, 2.0]]), jnp.array([0.5])
    diagonal, full = confidence.kind("diagonal"), confidence.kind("full")
    after = diagonal.update(diagonal.init(2, 3.0), pair, half)
    np.testing.assert_allclose(after.A, [3 + 0.5 * 1, 3 + 0.5 * 4])
    np.testing.assert_allclose(after.log_det_ratio, np.log(3.5 / 3) + np.log(5 / 3), rtol=1e-6)
    after = full.update(full.init(2, 3.0), pair, half)
    a, b, d = 3 + 0.5, 0.5 * 2, 3 + 0.5 * 4  # A = [[a, b], [b, d]]
    det = a * d - b * b
    np.testing.assert_allclose(after.inverse, np.array([[d, -b], [-b, a]]) / det, rtol=1e-6)
    np.testing.assert_allclose(after.log_det_ratio, np.log(det / 9), rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
@quick()
@given(seed=seeds)
def test_many_weighted_updates_give_the_oracles_dense_matrix(name, seed):
    prior, pairs, weights = weighted_pairs(seed)
    with jax.enable_x64(True):
        known = learned(name, prior, pairs, weights)
    A = dense_a(name, prior, pairs, weights)
    kept = A if name == "diagonal" else oracle.inverse(A)
    assert kept_of(name, known).dtype == np.float64
    np.testing.assert_allclose(kept_of(name, known), kept, rtol=1e-9, atol=1e-10 / prior)
    expected = oracle.log_det(A) - P * np.log(prior)
    np.testing.assert_allclose(known.log_det_ratio, expected, rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
@quick()
@given(seed=seeds)
def test_norms_of_all_pairs_are_the_oracles(name, seed):
    prior, pairs, weights = weighted_pairs(seed)
    G = np.random.default_rng(seed + 1).normal(size=(N_DOCS, P))
    with jax.enable_x64(True):
        known = learned(name, prior, pairs, weights)
        found = np.asarray(norms(name, known, G, EVERYONE))
    expected = oracle.widths(G, dense_a(name, prior, pairs, weights), m=1, alpha=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-6 / prior**0.5)
    np.testing.assert_array_equal(found, found.T)
    assert not np.diag(found).any()


@pytest.mark.parametrize("name", KINDS)
def test_five_hundred_updates_in_single_precision_stay_near_the_exact_matrix(name):
    rng = np.random.default_rng(3)
    pairs, weights = rng.normal(size=(500, 1, P)), rng.random((500, 1))
    known = learned(name, 0.1, pairs.astype(np.float32), weights.astype(np.float32))
    assert kept_of(name, known).dtype == np.float32
    A = dense_a(name, 0.1, pairs, weights)
    kept = A if name == "diagonal" else oracle.inverse(A)
    np.testing.assert_allclose(
        kept_of(name, known), kept, rtol=1e-3, atol=1e-3 * np.abs(kept).max()
    )
    expected = oracle.log_det(A) - P * np.log(0.1)
    np.testing.assert_allclose(known.log_det_ratio, expected, rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_an_update_of_weight_zero_changes_nothing(name):
    _, pairs, weights = weighted_pairs(0)
    before = learned(name, 0.5, pairs, weights)
    after = confidence.kind(name).update(before, jnp.asarray(pairs[0]), jnp.zeros(N_PAIRS))
    np.testing.assert_array_equal(kept_of(name, after), kept_of(name, before))
    np.testing.assert_array_equal(after.log_det_ratio, before.log_det_ratio)


@pytest.mark.parametrize("name", KINDS)
def test_padding_never_changes_the_norms_of_the_others(name):
    prior, pairs, weights = weighted_pairs(1)
    known = learned(name, prior, pairs, weights)
    G = np.random.default_rng(2).normal(size=(N_DOCS, P)).astype(np.float32)
    alone = np.asarray(norms(name, known, G, EVERYONE))
    at = np.array([0, 2, 3, 5, 6, 8])  # where the documents stand between the padding
    mask = np.isin(np.arange(9), at)
    for filling in (0.0, 1e6, np.inf, np.nan):
        padded = np.full((9, P), filling, np.float32)
        padded[at] = G
        found = np.asarray(norms(name, known, padded, mask))
        np.testing.assert_allclose(found[np.ix_(at, at)], alone, rtol=1e-6, atol=1e-6)
        assert np.all(np.isfinite(found))
    assert np.all(np.isfinite(norms(name, known, padded, np.zeros(9, bool))))


def uncentred_norms(scaled: np.ndarray) -> np.ndarray:
    """What norms from Gram differences would be without centring."""
    K = scaled @ scaled.T
    squared = np.diag(K)[:, None] + np.diag(K)[None, :] - K - K.T
    return np.sqrt(np.maximum(squared, 0))


def near_duplicates(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tangents in float32 that share all but a ten-thousandth, and the exact norms between them."""
    rng = np.random.default_rng(seed)
    common = 100 * rng.choice([-1, 1], size=P)
    G32 = (common + 0.01 * rng.normal(size=(N_DOCS, P))).astype(np.float32)
    return G32, oracle.widths(G32.astype(float), oracle.initial(P, 1.0), m=1, alpha=1.0)


@pytest.mark.parametrize("name", KINDS)
@quick()
@given(seed=seeds)
def test_near_duplicates_keep_their_digits_in_single_precision(name, seed):
    G32, exact = near_duplicates(seed)
    padded = np.concatenate([G32, np.zeros_like(G32)])
    mask = np.arange(2 * N_DOCS) < N_DOCS
    found = norms(name, start(name), padded, mask)[:N_DOCS, :N_DOCS]
    # The mean is rounded at 100 * 2^-24, for all documents alike; then only the differences count.
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-5)


def test_without_centring_the_same_near_duplicates_would_lose_all_digits():
    G32, exact = near_duplicates(0)
    assert np.abs(uncentred_norms(G32) - exact).max() > 0.5 * exact.max()


@pytest.mark.parametrize("name", KINDS)
@quick()
@given(seed=seeds)
def test_a_duplicate_far_from_the_mean_errs_by_at_most_root_epsilon_of_the_spread(name, seed):
    """One pair of near-duplicates among others: the Gram difference still rounds, boundedly."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(N_DOCS, P))
    G[1] = G[0] + 1e-5 * rng.normal(size=P)
    G32 = G.astype(np.float32)
    exact = oracle.widths(G32.astype(float), oracle.initial(P, 1.0), m=1, alpha=1.0)
    found = np.asarray(norms(name, start(name), G32, EVERYONE))
    spread = np.linalg.norm(G32 - G32.mean(axis=0), axis=1).max()
    # |sqrt(a + e) - sqrt(a)| <= sqrt(|e|), where e is some 4 (p + 2) roundings of spread^2.
    rounding = 4 * (P + 2) * np.finfo(np.float32).eps / 2
    assert np.abs(found - exact).max() <= np.sqrt(rounding) * spread


@quick()
@given(seed=seeds)
def test_alpha_of_the_lemma_is_the_oracles(seed):
    prior, pairs, weights = weighted_pairs(seed)
    rng = np.random.default_rng(seed)
    delta, nu, S, C1 = rng.uniform(0.01, 0.9), rng.uniform(0.1, 2), rng.random(), rng.random()
    A = dense_a("full", prior, pairs, weights)
    with jax.enable_x64(True):
        ratio = learned("full", prior, pairs, weights).log_det_ratio
        found = confidence.alpha_of_lemma(ratio, prior, nu, delta, S, C1)
    np.testing.assert_allclose(found, oracle.alpha_t(A, prior, delta, nu, S, C1), rtol=1e-9)


def test_alpha_before_anything_is_seen_by_hand():
    found = confidence.alpha_of_lemma(jnp.zeros(()), 4.0, 0.5, 0.1, 3.0, 2.0)
    expected = 2 * (0.5 * np.sqrt(-2 * np.log(0.1)) + 2 * 3)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@quick()
@given(
    T=st.floats(1, 1e4),
    m=st.integers(2, 4096),
    L=st.integers(2, 5),
    prior=st.floats(1e-3, 10),
    slack=st.floats(0, 1),
    J=st.integers(1, 50),
    scale=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_eps_of_the_lemma_is_the_oracles(T, m, L, prior, slack, J, scale):
    rate = slack * (1 - 1e-9) / (m * prior)  # eta m lambda <= 1
    with jax.enable_x64(True):
        found = confidence.eps_of_lemma(jnp.float64(T), m, L, prior, rate, J, scale)
    expected = oracle.eps_m(T, m, prior, L, rate, J, scale)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_eps_by_hand_and_beyond_the_lemmas_step_size():
    # T = prior = 1, m = 64, so m^(-1/6) = 1/2; half a step's worth of descent is left, J = 2.
    expected = 2**3 * np.sqrt(np.log(64)) / 2 + np.sqrt(2) * 0.5 + 2**4 * (1 + 1) / 2
    found = confidence.eps_of_lemma(jnp.ones(()), 64, 2, 1.0, 0.5 / 64, 2, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    beyond = confidence.eps_of_lemma(jnp.ones(()), 64, 2, 1.0, 3.0, 3, 1.0)
    np.testing.assert_allclose(beyond, expected - np.sqrt(2) * 0.5, rtol=1e-6)


@quick()
@given(norm=st.floats(0, 1e6), alpha=st.floats(0, 1e3), eps=st.floats(-1e3, 1e3, allow_nan=False))
def test_widths_are_never_negative(norm, alpha, eps):
    found = float(confidence.widths(jnp.full((2, 2), norm), jnp.float32(alpha), eps)[0, 1])
    assert found >= 0
    assert found == pytest.approx(max(alpha * norm + eps, 0.0), rel=1e-5, abs=1e-3)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match='"diagnal".*diagonal, full.*mean "diagonal"'):
        confidence.kind("diagnal")
