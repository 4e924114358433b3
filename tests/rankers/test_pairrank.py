"""PairRank: the solution of every round and A against the oracle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import confidence, feedback
from oracle import pairrank as oracle
from rankers.served import history_of, impression_of

from olrank.rankers import table
from olrank.rankers.pairrank import _newton
from olrank.types import Rows

D, K = 4, 6
newton = jax.jit(_newton)
pytestmark = pytest.mark.usefixtures("x64")


def differences(X, pairs):
    return np.array([X[i] - X[j] for i, j in pairs])


def task(kind):
    """Rows and pairs (winner, loser): noisy, or won throughout by the larger first feature."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, D))
    pairs = rng.integers(0, 30, (40, 2))
    if kind == "separable":
        pairs = np.array([sorted(pair, key=lambda i: -X[i, 0]) for pair in pairs])
    return X, pairs


@pytest.mark.parametrize("kind", ["noisy", "separable"])
@pytest.mark.parametrize("pull", [1e-4, 0.1, 10.0])
def test_the_solution_is_the_oracles_from_any_start(kind, pull):
    X, pairs = task(kind)
    expected = oracle.solve(differences(X, pairs), pull)
    history = history_of(pairs)
    for start in (np.zeros(D), expected + 0.1, np.full(D, 3.0)):
        found = newton(history, jnp.asarray(X), jnp.asarray(start), jnp.asarray(pull))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_pairs_count_by_their_weight():
    X, pairs = task("noisy")
    weights = np.tile([2.0, 1.0], 20)
    twice = np.concatenate([differences(X, pairs), differences(X, pairs[::2])])
    found = newton(history_of(pairs, weights), jnp.asarray(X), jnp.zeros(D), jnp.asarray(0.5))
    np.testing.assert_allclose(found, oracle.solve(twice, 0.5), rtol=1e-6, atol=1e-8)


def test_more_pairs_than_fit_in_a_chunk_are_all_used():
    X, pairs = task("noisy")
    many = np.tile(pairs, (30, 1))
    found = newton(history_of(many), jnp.asarray(X), jnp.zeros(D), jnp.asarray(3.0))
    # Thirty times every loss is a thirtieth of the pull.
    expected = oracle.solve(differences(X, pairs), 3.0 / 30)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss_scale", ["sum", "mean"])
def test_every_round_is_solved_and_the_confidence_is_the_dense_matrix(loss_scale):
    prior, pull = 0.7, 0.2
    made = table.make(
        "pairrank",
        {"k": K, "history": 10, "loss_scale": loss_scale, "prior": prior, "pull": pull},
    )
    rng = np.random.default_rng(7)
    X = rng.normal(size=(5 * K, D))
    rows, learn = Rows(jnp.asarray(X)), jax.jit(made.ranker.learn)
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    assert state.theta.tolist() == [0.0] * D
    A, seen = confidence.initial(D, prior), np.zeros((0, D))
    for t in range(5):
        ids = np.arange(t * K, (t + 1) * K)
        clicks = (0,) * K if t == 0 else tuple(rng.integers(0, 2, K).tolist())
        state = learn(state, jax.random.key(t), impression_of(ids, clicks), rows)
        slot_pairs = feedback.independent_pairs(clicks)
        A = confidence.update(A, X[ids], slot_pairs, m=1)
        won = [(a, b) if clicks[a] else (b, a) for a, b in slot_pairs]
        seen = np.concatenate([seen, differences(X[ids], won).reshape(-1, D)])
        # mean + pull ||theta||^2 is, times n, the sum + (2 n pull / 2) ||theta||^2
        strength = pull if loss_scale == "sum" else 2 * len(seen) * pull
        expected = oracle.solve(seen, strength) if len(seen) else np.zeros(D)
        np.testing.assert_allclose(state.theta, expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(state.confidence.inverse, np.linalg.inv(A), rtol=1e-9)
    assert len(seen) > 4


def test_a_hessian_that_is_singular_in_float32_does_no_harm():
    X, pairs = task("separable")
    few = pairs[[0, 2]]  # of rank two, and the pull is lost beside the squares of huge features
    with jax.enable_x64(False):
        huge = jnp.asarray(1e4 * X, jnp.float32)
        found = newton(history_of(few), huge, jnp.zeros(D, jnp.float32), jnp.float32(0.1))
    assert np.isfinite(found).all()
    assert (differences(1e4 * X, few) @ np.asarray(found, np.float64) > 0).all()
