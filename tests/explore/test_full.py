"""The whole matrix: refreshed before rounding errors add up, and refused where it does not fit."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.errors import ConfigError
from olrank.explore import full

P, PRIOR = 8, 1e-4  # a small prior: the inverse starts at 1e4 and ends near 1e-3


def drifted(n_updates, seed=0):
    """The confidence after `n_updates` impressions of two pairs, and the exact inverse."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(n_updates, 2, P)).astype(np.float32)
    ones = jnp.ones((n_updates, 2), jnp.float32)
    known = jax.lax.scan(
        lambda c, pw: (full.update(c, *pw), None),
        full.init(P, jnp.float32(PRIOR)),
        (jnp.asarray(pairs), ones),
    )[0]
    flat = pairs.reshape(-1, P).astype(float)
    return known, np.linalg.inv(PRIOR * np.eye(P) + flat.T @ flat)


def error(known, exact):
    return np.abs(np.asarray(known.inverse) - exact).max() / np.abs(exact).max()


def test_without_a_refresh_rounding_errors_outgrow_the_inverse_and_with_it_they_do_not(monkeypatch):
    monkeypatch.setattr(full, "_RECENT", 128)
    known, exact = drifted(64 * 4)
    assert error(known, exact) < 1e-4
    monkeypatch.setattr(full, "_RECENT", 2048)
    never, _ = drifted(64 * 4)
    assert error(never, exact) > 100 * error(known, exact)


def test_an_impression_without_pairs_is_no_update():
    known, _ = drifted(3)
    after = full.update(known, jnp.zeros((2, P)), jnp.zeros(2))
    for mine, theirs in zip(after, known, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_recent_pairs_are_in_the_inverse_and_later_in_the_matrix(monkeypatch):
    monkeypatch.setattr(full, "_RECENT", 8)
    pair, weights = jnp.eye(2, P), jnp.array([4.0, 0.0])
    known = full.init(P, jnp.float32(1.0))
    for n in range(1, 7):  # one pair each; after the next, two at once could overflow
        known = full.update(known, pair, weights)
        assert int(known.n_recent) == n
        np.testing.assert_allclose(known.inverse[0, 0], 1 / (1 + 4 * n), rtol=1e-6)
        np.testing.assert_array_equal(known.matrix, np.eye(P))
    known = full.update(known, pair, weights)
    assert int(known.n_recent) == 0
    np.testing.assert_allclose(known.matrix[0, 0], 1 + 4 * 7)
    np.testing.assert_allclose(known.inverse[0, 0], 1 / (1 + 4 * 7), rtol=1e-6)


def test_more_pairs_than_are_kept_are_added_in_parts(monkeypatch):
    monkeypatch.setattr(full, "_RECENT", 8)
    G = np.random.default_rng(0).normal(size=(21, P)).astype(np.float32)
    known = full.update(full.init(P, jnp.float32(1.0)), jnp.asarray(G), jnp.ones(21))
    A = np.eye(P) + G.T.astype(float) @ G
    np.testing.assert_allclose(known.inverse, np.linalg.inv(A), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(known.log_det_ratio, np.linalg.slogdet(A)[1], rtol=1e-5)


def test_replicas_are_refreshed_when_each_is_due_and_left_alone_otherwise(monkeypatch):
    """Two axes of replicas, as the engine has them: only those at the count are made anew."""
    monkeypatch.setattr(full, "_RECENT", 8)
    base, _ = drifted(20)  # more pairs than parameters: an inverse that float32 can compute
    wrong = base._replace(inverse=base.inverse + 1.0)
    counts = jnp.array([[7, 4], [5, 7]], jnp.int32)
    stacked = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2, 2, *leaf.shape)), wrong)
    stacked = stacked._replace(n_recent=counts)
    pair, one = jnp.ones((1, P)), jnp.ones(1)
    after = jax.jit(jax.vmap(jax.vmap(lambda c: full.update(c, pair, one))))(stacked)
    for s in range(2):
        for r in range(2):
            due = int(counts[s, r]) == 7
            matrix = np.asarray(after.matrix[s, r], float)
            assert (int(after.n_recent[s, r]) == 0) == due
            assert np.array_equal(matrix, np.asarray(wrong.matrix)) != due
            if due:
                exact = np.linalg.inv(matrix)
                np.testing.assert_allclose(after.inverse[s, r], exact, rtol=1e-4, atol=1e-5)


def test_a_matrix_that_does_not_fit_is_refused_with_the_size_it_needs():
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    n_params = int((there / 8) ** 0.5) + 1000
    with pytest.raises(ConfigError, match=rf"{n_params:,} x {n_params:,}, which take .* GB"):
        jax.eval_shape(lambda prior: full.init(n_params, prior), jnp.float32(1.0))
