"""The blocks order of the released code, which can reverse what the topological draw keeps."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys, lists_of
from explore.graphs import Case, cases, spread, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import order as oracle
from oracle.cases import FIGURE_1, certain_graph

from olrank.explore import order

SIZE, K = 6, 4
FEW, MANY = 16, 20_000
quick = partial(settings, max_examples=40, deadline=None)


@partial(jax.jit, static_argnums=4)
def draws(keys, certain, scores, mask, k):
    def one(key):
        return order.draw_blocks(key, certain, scores, mask, k, swaps=True)

    return jax.vmap(one)(keys)


def drawn(case: Case, seed: int, n: int = FEW):
    """n draws of the top K in float64, as NumPy."""
    with jax.enable_x64(True):
        many = draws(keys(seed, n), case.padded, case.padded_scores, case.mask, K)
    return jax.tree.map(np.asarray, many)


def swap_memo(lists: dict[oracle.Ranked, float], shown: oracle.Ranked) -> np.ndarray:
    """[K, K] P(swapped) / (P(shown) + P(swapped)) above the diagonal, from the enumeration."""
    rho = np.zeros((K, K))
    for a in range(len(shown)):
        for b in range(a + 1, len(shown)):
            p_swapped = lists.get(oracle.swapped(shown, a, b), 0.0)
            rho[a, b] = p_swapped / (lists[shown] + p_swapped)
    return rho


def test_a_concrete_certain_pair_is_reversed_by_blocks_and_kept_by_the_topological_draw():
    scores = jnp.array([0.4, 0.2, 0.0])
    # sigma(0.2) - 1/2 = 0.0498 and sigma(0.4) - 1/2 = 0.0987: neighbours uncertain, 0 > 2 certain.
    graph = order.certain(scores, jnp.full((3, 3), 0.07))
    assert np.argwhere(graph).tolist() == [[0, 2]]
    case = spread(np.asarray(graph), np.asarray(scores), np.arange(3), SIZE)
    blocks = drawn(case, seed=0)
    reversed_ones = [s for s in lists_of(blocks.order, blocks.shown) if s.index(2) < s.index(0)]
    assert reversed_ones, "the blocks order never reversed the certain pair"
    everyone = jnp.ones(3, bool)
    keep = jax.jit(jax.vmap(lambda key: order.draw_topological(key, graph, scores, everyone, 3)))
    for shown in keep(keys(0, FEW)).order.tolist():
        assert shown.index(0) < shown.index(2)


def test_a_reversed_certain_pair_is_reported_as_certain_the_other_way():
    case = spread(FIGURE_1, whole(FIGURE_1).scores, np.arange(6), SIZE)
    found = drawn(case, seed=3, n=MANY)
    row = lists_of(found.order, found.shown).index((0, 3, 2, 1))
    assert np.argwhere(found.certain[row]).tolist() == [[0, 1], [0, 2], [0, 3], [3, 1]]
    assert np.exp(found.log_p_shown[row]) == pytest.approx(1 / 6)


GRAPHS = {
    "figure 1": FIGURE_1,
    "a block cut by k": certain_graph(6, {(0, 1), (2, 3), (3, 4), (4, 5)}),
    "fewer than k": certain_graph(3, {(0, 1)}),
    "everything certain": certain_graph(5, set()),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_draws_propensities_and_swaps_equal_the_exact_enumeration(name):
    graph = GRAPHS[name]
    case = spread(graph, whole(graph).scores, np.arange(len(graph)), SIZE)
    expected = oracle.block_lists(graph, case.scores, K)
    ranking = drawn(case, seed=1, n=MANY)
    lists = lists_of(ranking.order, ranking.shown)
    assert_drawn_as(expected, lists)
    row_of = {shown: row for row, shown in enumerate(lists)}
    assert row_of.keys() == expected.keys()
    for shown, row in row_of.items():
        log_p = ranking.log_p_shown[row]
        assert log_p == pytest.approx(np.log(expected[shown]), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(ranking.memo[row], swap_memo(expected, shown), rtol=1e-12)


@quick()
@given(case=cases(SIZE), seed=st.integers(0, 2**31))
def test_every_draw_is_one_of_the_oracles_with_its_probability(case, seed):
    expected = oracle.block_lists(case.certain, case.scores, K)
    ranking = drawn(case, seed)
    for row, documents in enumerate(lists_of(ranking.order, ranking.shown)):
        shown = tuple(np.searchsorted(case.at, documents).tolist())
        assert len(shown) == min(K, case.at.size)
        log_p = ranking.log_p_shown[row]
        assert log_p == pytest.approx(np.log(expected[shown]), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(ranking.memo[row], swap_memo(expected, shown), rtol=1e-12)
        log_choices = np.log(ranking.choices[row].astype(float))
        assert log_p == pytest.approx(-log_choices.sum(), rel=1e-12, abs=1e-12)


def test_a_block_stands_where_its_best_document_does():
    graph = np.zeros((3, 3), bool)
    graph[2, 0] = graph[2, 1] = True
    case = spread(graph, np.array([0.0, -1.0, 5.0]), np.arange(3), SIZE)
    found = drawn(case, seed=0)
    assert set(lists_of(found.order, found.shown)) == {(2, 0, 1), (2, 1, 0)}
