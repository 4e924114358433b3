"""Features less their mean in units of their spread, as of the documents shown so far."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.nets import standard

pytestmark = pytest.mark.usefixtures("x64")

D = 3
EVERY = jnp.ones(4, bool)


def of(lists, counted=EVERY):
    moments = standard.none(D)
    for shown in lists:
        moments = standard.after(moments, shown, counted)
    return moments


def lists_of(n, seed=0):
    return jax.random.normal(jax.random.key(seed), (n, 4, D)) * jnp.array([1.0, 10.0, 0.1]) + 5.0


def test_moments_are_those_of_all_documents_shown_so_far():
    lists = lists_of(7)
    moments, every = of(lists), np.asarray(lists).reshape(-1, D)
    assert float(moments.n) == 28
    np.testing.assert_allclose(moments.mean, every.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, every.var(axis=0), rtol=1e-12)


def test_documents_that_are_not_counted_move_nothing():
    counted = jnp.array([True, False, True, False])
    moments, every = of(lists_of(3), counted), np.asarray(lists_of(3))[:, ::2].reshape(-1, D)
    np.testing.assert_allclose(moments.variance, every.var(axis=0), rtol=1e-12)
    after = standard.after(moments, lists_of(1)[0], jnp.zeros(4, bool))
    jax.tree.map(np.testing.assert_array_equal, after, moments)


def test_later_documents_count_as_if_there_had_been_no_more_than_some_thousands_before():
    moments = standard.none(D)._replace(n=jnp.asarray(1e9), mean=jnp.zeros(D))
    after = standard.after(moments, jnp.ones((4, D)), EVERY)
    np.testing.assert_allclose(after.mean, 4 / 20_000, rtol=1e-12)


def test_a_feature_has_mean_0_and_spread_1():
    lists = lists_of(50)
    every = lists.reshape(-1, D)
    values = standard.standardised(of(lists), every)
    exact = (every - every.mean(axis=0)) / every.std(axis=0)
    np.testing.assert_allclose(values, jnp.clip(exact, -4, 4), rtol=1e-9)


def test_a_feature_that_never_differed_is_0_for_everybody():
    moments = of([jnp.full((4, D), 2.0)])
    np.testing.assert_array_equal(standard.standardised(moments, jnp.full((1, D), 9.0)), 0.0)
    np.testing.assert_array_equal(standard.standardised(standard.none(D), jnp.ones((2, D))), 0.0)


def test_a_value_is_not_farther_than_four_spreads_from_the_mean():
    moments = of(lists_of(50))
    np.testing.assert_allclose(standard.standardised(moments, jnp.full((1, D), 1e9)), 4.0)
    np.testing.assert_allclose(standard.standardised(moments, jnp.full((1, D), -1e9)), -4.0)
