"""PairRank: the solution of every round and A against the oracle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import confidence, feedback
from oracle import pairrank as oracle
from rankers.served import history_of, impression_of

from olrank.feedback import history as ring
from olrank.rankers import table
from olrank.rankers.pairrank import _MAX_PASSES, _search, _solve
from olrank.types import Rows

D, K = 4, 6
solve = jax.jit(_solve)
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


def curvature(x, theta):
    """Of the pair losses, at some parameters."""
    p = 1 / (1 + np.exp(-x @ theta))
    return jnp.asarray((x * (p * (1 - p))[:, None]).T @ x)


@pytest.mark.parametrize("kind", ["noisy", "separable"])
@pytest.mark.parametrize("pull", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("remembered", ["right", "old", "nothing", "far too much"])
def test_the_solution_is_the_oracles_from_any_start_and_curvature(kind, pull, remembered):
    X, pairs = task(kind)
    x = differences(X, pairs)
    expected = oracle.solve(x, pull)
    curved = {
        "right": curvature(x, expected),
        "old": curvature(x[:30], expected + 0.3),
        "nothing": jnp.zeros((D, D)),
        "far too much": 1e3 * jnp.eye(D),
    }[remembered]
    for start in (np.zeros(D), expected + 0.1, np.full(D, 3.0)):
        found = solve(history_of(pairs), curved, jnp.asarray(X), jnp.asarray(start), pull)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_pairs_count_by_their_weight():
    X, pairs = task("noisy")
    weights = np.tile([2.0, 1.0], 20)
    twice = np.concatenate([differences(X, pairs), differences(X, pairs[::2])])
    found = solve(history_of(pairs, weights), jnp.eye(D), jnp.asarray(X), jnp.zeros(D), 0.5)
    np.testing.assert_allclose(found, oracle.solve(twice, 0.5), rtol=1e-6, atol=1e-8)


def test_more_pairs_than_fit_in_a_chunk_are_all_used():
    X, pairs = task("noisy")
    many = np.tile(pairs, (30, 1))
    found = solve(history_of(many), jnp.eye(D), jnp.asarray(X), jnp.zeros(D), 3.0)
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
        start = jnp.zeros(D, jnp.float32)
        found = solve(history_of(few), jnp.zeros((D, D), jnp.float32), huge, start, 0.1)
    assert np.isfinite(found).all()
    assert (differences(1e4 * X, few) @ np.asarray(found, np.float64) > 0).all()


def test_a_remembered_curvature_follows_the_history_it_is_of():
    made = table.make("pairrank", {"k": K, "history": 20, "pull": 0.5, "prior": 0.5})
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40 * K, D))
    rows, learn = Rows(jnp.asarray(X)), jax.jit(made.ranker.learn)
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    renewed = []
    for t in range(40):  # the ring is full after twenty
        clicks = tuple(rng.integers(0, 2, K).tolist())
        ids = np.arange(t * K, (t + 1) * K)
        before = state
        state = learn(state, jax.random.key(t), impression_of(ids, clicks), rows)
        if int(state.history.renew_at) != int(before.history.renew_at):
            renewed.append(t + 1)
            held = pairs_of(state.history.pairs, X)
            np.testing.assert_allclose(
                state.history.curvature, curvature(held, np.asarray(before.theta)), rtol=1e-9
            )
    assert renewed[:16] == list(range(1, 17))  # at first every impression is a large part of it
    assert 1 < len(renewed[16:]) <= 24


def pairs_of(history, X):
    """[n, D] differences of the pairs that a history holds."""
    held = ring.pairs_held(history)
    at = (int(held.first) + np.arange(int(held.n))) % history.weights.shape[0]
    rows = np.asarray(history.rows)[np.asarray(history.pair_impression)[at]]
    winners, losers = (np.asarray(side)[at] for side in (history.winners, history.losers))
    each = np.arange(len(at))
    return X[rows[each, winners]] - X[rows[each, losers]]


def test_side_by_side_each_search_ends_where_it_would_alone():
    X, pairs = task("noisy")
    history, starts = history_of(pairs), jnp.asarray([[0.0] * D, [3.0] * D, [-1.0] * D])
    curved = jnp.stack([jnp.eye(D), 1e3 * jnp.eye(D), jnp.zeros((D, D))])
    together = jax.vmap(_solve, (None, 0, None, 0, None))(
        history, curved, jnp.asarray(X), starts, 0.1
    )
    for i in range(3):
        alone = solve(history, curved[i], jnp.asarray(X), starts[i], 0.1)
        np.testing.assert_allclose(together[i], alone, rtol=1e-9)


def test_a_search_that_is_not_wanted_makes_no_pass_and_one_in_vain_ends():
    def uphill(theta):
        return jnp.sum(theta), jnp.ones(D), jnp.ones(D)

    nothing = _search(uphill, jnp.zeros(D), jnp.asarray(False), 1e-6)
    assert (int(nothing.n_passes), nothing.theta.tolist()) == (0, [0.0] * D)

    def endless(theta):
        return -jnp.sum(theta), -jnp.ones(D), jnp.ones(D)

    assert int(_search(endless, jnp.zeros(D), jnp.asarray(True), 1e-6).n_passes) == _MAX_PASSES
