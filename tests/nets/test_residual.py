"""A linear part beside a network: its scale, its tangents, and that it starts at zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.nets import mlp
from olrank.nets.net import product
from olrank.nets.residual import with_linear

M, D, N = 6, 4, 5


@pytest.fixture
def case(x64):
    net = with_linear(mlp.paper(M, 2))
    features = jax.random.uniform(jax.random.key(1), (N, D))
    return net, net.init(jax.random.key(0), D), features


def test_it_scores_zero_before_anything_is_learned(case):
    net, params, features = case
    np.testing.assert_array_equal(net.score(params, features), np.zeros(N))


def test_the_score_is_the_line_times_the_root_of_the_width_plus_the_network(case):
    net, (_, theta), features = case
    moved = jax.tree.map(lambda leaf: leaf + 0.1, theta)
    beta = jnp.arange(1.0, D + 1)
    line = np.sqrt(M) * np.asarray(features) @ np.array([1.0, 2, 3, 4])
    expected = line + np.asarray(mlp.paper(M, 2).score(moved, features))
    np.testing.assert_allclose(net.score((beta, moved), features), expected, rtol=1e-12)


def test_tangents_are_gradients_over_the_root_of_the_width_and_factors_their_outer_products(case):
    net, (beta, theta), features = case
    params = (beta + 0.3, jax.tree.map(lambda leaf: leaf + 0.1, theta))
    gradient = jax.vmap(jax.grad(lambda p, x: net.score(p, x[None])[0]), (None, 0))(
        params, features
    )
    flat = np.concatenate(
        [np.asarray(leaf).reshape(N, -1) for leaf in jax.tree.leaves(gradient)], axis=1
    )
    np.testing.assert_allclose(net.tangents(params, features), flat / np.sqrt(M), atol=1e-12)
    np.testing.assert_allclose(net.tangents(params, features)[:, :D], features)
    np.testing.assert_allclose(
        product(net.factors(params, features)), net.tangents(params, features), atol=1e-12
    )
