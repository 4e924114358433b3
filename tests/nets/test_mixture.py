"""Networks beside the one that serves: their scores count by weight, their tangents not at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.nets import mixture, mlp, residual, standard
from olrank.nets.net import product

pytestmark = pytest.mark.usefixtures("x64")

ONE, OTHER = residual.with_linear(mlp.paper(6, 2)), mlp.paper(8, 2)
NET = mixture.beside(ONE, OTHER, 3)
X = jax.random.uniform(jax.random.key(0), (5, 4))


def moved(params):
    """Parameters that are not where they started, where every score is 0."""

    def move(leaf):
        return leaf + 0.3 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape)

    return jax.tree.map(move, params)


def test_at_first_others_have_no_weight_and_do_not_change_where_the_one_starts():
    first, others = NET.init(jax.random.key(1), 4)
    jax.tree.map(np.testing.assert_array_equal, first, ONE.init(jax.random.key(1), 4))
    np.testing.assert_array_equal(others.weights, np.zeros(3))
    kernels = jax.tree.leaves(others.thetas)[0]
    assert not np.array_equal(kernels[0], kernels[1])


def test_scores_are_summed_by_weight():
    first, others = moved(NET.init(jax.random.key(1), 4))
    each = [
        OTHER.score(jax.tree.map(lambda leaf, i=i: leaf[i], others.thetas), X) for i in range(3)
    ]
    expected = ONE.score(first, X) + sum(w * f for w, f in zip(others.weights, each, strict=True))
    np.testing.assert_allclose(NET.score((first, others), X), expected, rtol=1e-12)


def test_tangents_are_those_of_the_one():
    params = moved(NET.init(jax.random.key(1), 4))
    expected = ONE.tangents(params[0], X)
    np.testing.assert_array_equal(NET.tangents(params, X), expected)
    np.testing.assert_allclose(product(NET.factors(params, X)), expected, rtol=1e-12)
    assert NET.scale == ONE.scale


def test_others_may_see_features_standardised_and_the_one_sees_them_as_they_are():
    net = mixture.beside(ONE, OTHER, 3, standardise=True)
    first, others = moved(net.init(jax.random.key(1), 4))
    seen = standard.after(standard.none(4), X, jnp.ones(5, bool))
    others = others._replace(moments=seen)
    exact = (X - X.mean(axis=0)) / X.std(axis=0)
    each = [
        OTHER.score(jax.tree.map(lambda leaf, i=i: leaf[i], others.thetas), exact) for i in range(3)
    ]
    expected = ONE.score(first, X) + sum(w * f for w, f in zip(others.weights, each, strict=True))
    np.testing.assert_allclose(net.score((first, others), X), expected, rtol=1e-4)
