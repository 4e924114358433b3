"""Padding, short lists, empty lists and huge scores: harmless in every order."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from explore.frequencies import keys
from explore.graphs import Case, cases, spread, whole
from hypothesis import given, settings
from oracle import order as oracle
from oracle.cases import certain_graph

from olrank.explore import order

N, SIZE, K, FEW = 5, 8, 6, 8


def greedy(key, certain, scores, mask, k, swaps):
    return order.draw_greedy(key, scores, mask, k)


ORDERS = {"topological": order.draw_topological, "blocks": order.draw_blocks, "greedy": greedy}


@partial(jax.jit, static_argnums=0)
def draws(name, keys, certain, scores, mask):
    return jax.vmap(lambda key: ORDERS[name](key, certain, scores, mask, K, swaps=True))(keys)


def drawn(name: str, certain, scores, mask):
    scores = np.asarray(scores, np.float32)
    return jax.tree.map(np.asarray, draws(name, keys(0, FEW), certain, scores, mask))


def assert_harmless(ranking, mask) -> None:
    """Finite; as many slots as fit; shown documents are candidates, each once."""
    n_shown = min(int(np.sum(mask)), K)
    assert np.array_equal(ranking.shown, np.tile(np.arange(K) < n_shown, (FEW, 1)))
    assert np.all(np.isfinite(ranking.log_p_shown))
    assert np.all(ranking.log_p_shown <= 0)
    assert np.all(ranking.choices[ranking.shown] >= 1)
    assert np.all(ranking.choices[~ranking.shown] == 1)
    assert np.all((ranking.order >= 0) & (ranking.order < len(mask)))
    both = ranking.shown[:, :, None] & ranking.shown[:, None, :]
    assert not np.any(ranking.certain & ~both)
    for documents in ranking.order[:, :n_shown]:
        assert len(set(documents.tolist())) == n_shown
        assert np.all(mask[documents])
    if not isinstance(ranking.memo, tuple):
        assert np.all((ranking.memo >= 0) & (ranking.memo < 1))
        assert not np.any(np.where(both, 0, ranking.memo))


def assert_same_but_for_places(alone, among, at) -> None:
    np.testing.assert_array_equal(alone.shown, among.shown)
    shown = alone.shown
    np.testing.assert_array_equal(np.asarray(at)[alone.order][shown], among.order[shown])
    for one, other in zip(jax.tree.leaves(alone[2:]), jax.tree.leaves(among[2:]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=25, deadline=None)
@given(case=cases(N, smallest=N))
def test_adding_padding_at_the_end_changes_nothing(name, case: Case):
    tied = np.round(case.scores / 2) if name == "greedy" else case.scores
    alone = drawn(name, case.certain, tied, np.ones(N, bool))
    wider = spread(case.certain, tied, np.arange(N), SIZE)
    among = drawn(name, wider.padded, wider.padded_scores, wider.mask)
    assert_same_but_for_places(alone, among, np.arange(N))
    assert not np.any(wider.mask[among.order[~among.shown]]), "a document fills an unshown slot"
    assert_harmless(among, wider.mask)


@pytest.mark.parametrize("name", ORDERS)
def test_padding_between_the_documents_changes_nothing(name):
    graph = certain_graph(N, {(0, 1), (1, 2), (3, 4)})
    at = np.array([1, 2, 4, 6, 7])
    alone = drawn(name, graph, whole(graph).scores, np.ones(N, bool))
    among = spread(graph, whole(graph).scores, at, SIZE)
    found = drawn(name, among.padded, among.padded_scores, among.mask)
    assert_same_but_for_places(alone, found, at)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_no_one_or_two_documents_are_harmless(name, n):
    mask = np.arange(SIZE) < n
    found = drawn(name, np.zeros((SIZE, SIZE), bool), np.zeros(SIZE), mask)
    assert_harmless(found, mask)
    assert np.exp(found.log_p_shown) == pytest.approx(0.5 if n == 2 else 1.0)


@pytest.mark.parametrize("name", ORDERS)
def test_all_ties_leave_everything_to_chance(name):
    nothing_certain = np.asarray(order.certain(jnp.zeros(SIZE), jnp.zeros((SIZE, SIZE))))
    assert not nothing_certain.any()
    found = drawn(name, nothing_certain, np.zeros(SIZE), np.ones(SIZE, bool))
    assert_harmless(found, np.ones(SIZE, bool))
    assert np.all(found.choices == [8, 7, 6, 5, 4, 3])
    assert len({tuple(documents) for documents in found.order.tolist()}) > 1


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("huge", [1e4, 1e30, 3e38])
def test_huge_scores_are_ranked_best_first_without_overflow(name, huge):
    scores = jnp.array([0.0, huge, -huge, huge / 2, -huge / 2, 1.0, -1.0, 2.0])
    graph = np.asarray(order.certain(scores, jnp.zeros((SIZE, SIZE))))
    assert oracle.is_acyclic(graph)
    found = drawn(name, graph, scores, np.ones(SIZE, bool))
    assert_harmless(found, np.ones(SIZE, bool))
    assert np.all(found.order == [1, 3, 7, 5, 0, 6])
    assert np.all(found.log_p_shown == 0)
