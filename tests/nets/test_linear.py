"""The linear net: f(x; theta) = theta^T x."""

import jax
import jax.numpy as jnp
import numpy as np

from olrank.nets.linear import linear

KEY = jax.random.key(0)


def test_scores_are_the_inner_products_by_hand():
    features = jnp.array([[1.0, 2.0, 0.0], [0.0, -1.0, 4.0]])
    theta = jnp.array([3.0, 5.0, 0.5])
    expected = [1 * 3 + 2 * 5, -1 * 5 + 4 * 0.5]
    np.testing.assert_allclose(linear().score(theta, features), expected)


def test_every_document_scores_zero_before_anything_is_learned():
    theta_0 = linear().init(KEY, 3)
    assert theta_0.shape == (3,)
    features = jax.random.normal(KEY, (5, 3))
    assert linear().score(theta_0, features).tolist() == [0.0] * 5


def test_tangents_are_the_features_and_the_gradient_of_the_score():
    features = jax.random.normal(KEY, (4, 3))
    theta = jnp.array([1.0, -2.0, 0.25])
    np.testing.assert_array_equal(linear().tangents(theta, features), features)
    by_jax = jax.jacobian(linear().score)(theta, features)
    np.testing.assert_allclose(linear().tangents(theta, features), by_jax, rtol=1e-6)
    assert linear().scale == 1.0


def test_the_net_follows_the_precision_it_is_asked_for(x64):
    theta_0 = linear().init(KEY, 3)
    assert theta_0.dtype == jnp.float64
    assert linear().score(theta_0, jnp.ones((2, 3))).dtype == jnp.float64


def test_the_net_is_one_object_however_often_it_is_asked_for():
    assert linear() is linear()
