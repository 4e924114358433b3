"""Pruned certain orders: the same lists, choices and swap weights as all norms give."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olrank.explore import confidence, order, prune

K, N, REAL, OUT, IN = 3, 40, 33, 4, 5
MASK = jnp.arange(N) < REAL


def case(seed, spread, alpha):
    """A query of REAL documents: a layer of outer products and a layer of plain inputs."""
    rng = np.random.default_rng(seed)
    factors = (
        (rng.normal(size=(N, OUT)), rng.random((N, IN))),
        (np.ones((N, 1)), rng.random((N, OUT)) * 0.3),
    )
    scores = spread * rng.normal(size=N)
    A = 0.5 + 5 * rng.random(OUT * IN + OUT)
    cast = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (scores, factors, A))
    return (*cast, jnp.float32(alpha), jnp.float32(0.0), MASK)


@jax.jit
def both_ways(key, given):
    scores, mask = given[0], given[-1]
    drawn = [
        order.draw_topological(key, edges, scores, mask, K, swaps=True)
        for edges in (prune.dense("probability", *given), prune.pruned(K, "probability", *given))
    ]
    return drawn, jnp.sum(
        prune.pruned(K, "probability", *given) != prune.dense("probability", *given)
    )


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(prune, "_SIZES", (8, 20))
    monkeypatch.setattr(prune, "_FEW", 20)
    prune.certain_orders.cache_clear()


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.3, 1.0, 3.0, 10.0]),
    st.sampled_from([0.0, 0.003, 0.01, 0.03, 0.1, 0.3]),
)
def test_the_list_drawn_is_the_one_that_all_norms_give(seed, spread, alpha):
    (dense, pruned), _ = both_ways(jax.random.key(seed), case(seed, spread, alpha))
    for mine, theirs in zip(jax.tree.leaves(pruned), jax.tree.leaves(dense), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_pruning_leaves_out_work_and_is_not_the_dense_way_in_disguise():
    """Orders about documents that cannot be shown are left open, in most queries some are."""
    differ = [both_ways(jax.random.key(0), case(seed, 10.0, 0.03))[1] > 0 for seed in range(20)]
    assert np.mean(differ) > 0.5


def test_bounds_hold_around_the_exact_norms():
    for seed in range(20):
        scores, factors, A, *_ = case(seed, 1.0, 0.1)
        low, high = prune._norm_bounds(factors, A, MASK)
        flat = np.concatenate(
            [np.einsum("no,ni->noi", d, i).reshape(N, -1) for d, i in factors], axis=1
        ).astype(np.float64)[:REAL]
        exact = np.sqrt(((flat - flat.mean(0)) ** 2 / np.asarray(A)).sum(1))
        assert np.all(low[:REAL] <= exact)
        assert np.all(exact <= high[:REAL])
        np.testing.assert_allclose(high[:REAL], exact, rtol=1e-3)


def test_one_replica_is_pruned_and_several_take_the_dense_way():
    find = prune.certain_orders(K, "probability")
    one = case(3, 10.0, 0.03)
    alone = jax.vmap(find, in_axes=(0, None, 0, 0, None, None))(
        one[0][None], one[1], one[2][None], one[3][None], one[4], one[5]
    )
    np.testing.assert_array_equal(alone[0], prune.pruned(K, "probability", *one))
    three = [case(seed, 10.0, 0.03) for seed in (3, 4, 5)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *three)
    together = jax.vmap(find)(*stacked)
    for found, each in zip(together, three, strict=True):
        np.testing.assert_array_equal(found, prune.dense("probability", *each))


def test_a_short_list_takes_the_dense_way(monkeypatch):
    monkeypatch.setattr(prune, "_FEW", N)
    one = case(3, 10.0, 0.03)
    dense, pruned = (way("probability", *one) for way in (prune.dense, partial(prune.pruned, K)))
    assert np.any(dense != pruned)
    np.testing.assert_array_equal(prune.certain_orders(K, "probability")(*one), dense)


def test_norms_do_not_depend_on_how_many_pairs_are_taken_at_once(monkeypatch, x64):
    rng = np.random.default_rng(0)
    factors = ((jnp.asarray(rng.normal(size=(N, 6))), jnp.asarray(rng.random((N, 5)))),)
    known = confidence.Confidence(jnp.asarray(0.5 + rng.random(30)), jnp.zeros(()))
    way = confidence.kind("diagonal")
    whole = confidence.pair_norms(way, known, factors, MASK)
    for shifts in (1, 3, N // 2 - 1):
        monkeypatch.setattr(confidence, "_CACHE_FLOATS", 6 * N * shifts)
        np.testing.assert_allclose(
            confidence.pair_norms(way, known, factors, MASK), whole, rtol=1e-12, atol=1e-14
        )


def test_norms_of_outer_products_are_those_of_the_tangents_multiplied_out(x64):
    rng = np.random.default_rng(1)
    delta, inputs = rng.normal(size=(N, 6)), rng.random((N, 5))
    A = 0.5 + rng.random(30)
    g = np.einsum("no,ni->noi", delta, inputs).reshape(N, -1)[:REAL]
    exact = np.sqrt((((g[:, None] - g[None, :]) ** 2) / A).sum(2))
    known = confidence.Confidence(jnp.asarray(A), jnp.zeros(()))
    factors = ((jnp.asarray(delta), jnp.asarray(inputs)),)
    found = confidence.pair_norms(confidence.kind("diagonal"), known, factors, MASK)
    np.testing.assert_allclose(found[:REAL, :REAL], exact, rtol=1e-9, atol=1e-7)


def test_near_duplicates_of_outer_products_keep_their_digits_in_single_precision():
    """Documents a ten-thousandth apart: a Gram matrix would leave none of the digits."""
    rng = np.random.default_rng(2)
    delta = (1.0 + 1e-4 * rng.normal(size=(N, 6))).astype(np.float32)
    inputs = (0.5 + 1e-4 * rng.normal(size=(N, 5))).astype(np.float32)
    A = (0.5 + rng.random(30)).astype(np.float32)
    g = np.einsum("no,ni->noi", delta.astype(float), inputs.astype(float)).reshape(N, -1)[:REAL]
    exact = np.sqrt((((g[:, None] - g[None, :]) ** 2) / A).sum(2))
    known = confidence.Confidence(jnp.asarray(A), jnp.zeros(()))
    factors = ((jnp.asarray(delta), jnp.asarray(inputs)),)
    found = confidence.pair_norms(confidence.kind("diagonal"), known, factors, MASK)
    np.testing.assert_allclose(found[:REAL, :REAL], exact, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("n_docs", [1, 2, 3, 4, 7, 8])
def test_every_pair_of_any_number_of_documents_is_met(n_docs, x64):
    rng = np.random.default_rng(n_docs)
    delta, inputs = rng.normal(size=(n_docs, 2)), rng.random((n_docs, 3))
    g = np.einsum("no,ni->noi", delta, inputs).reshape(n_docs, -1)
    exact = np.sqrt(((g[:, None] - g[None, :]) ** 2).sum(2))
    known = confidence.Confidence(jnp.ones(6), jnp.zeros(()))
    factors = ((jnp.asarray(delta), jnp.asarray(inputs)),)
    found = confidence.pair_norms(
        confidence.kind("diagonal"), known, factors, jnp.ones(n_docs, bool)
    )
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-7)
