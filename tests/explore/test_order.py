"""Certain orders and the topological draw: by hand, by claim, and against the oracle."""

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
from hypothesis.extra.numpy import arrays
from oracle import confidence as oracle_confidence
from oracle import network
from oracle import order as oracle
from oracle.cases import FIGURE_1, certain_graph

from olrank.explore import confidence, order

SIZE, K = 6, 4
FEW, MANY = 16, 20_000  # draws; two numbers only, since each compiles anew
quick = partial(settings, max_examples=40, deadline=None)
certain = jax.jit(order.certain)
numbers = st.floats(-30, 30, allow_subnormal=False)


@partial(jax.jit, static_argnums=4)
def draws(keys, certain, scores, mask, k):
    def one(key):
        return order.draw_topological(key, certain, scores, mask, k, swaps=True)

    return jax.vmap(one)(keys)


def drawn(case: Case, k: int, seed: int, n: int = FEW):
    """n draws in float64, as NumPy."""
    with jax.enable_x64(True):
        many = draws(keys(seed, n), case.padded, case.padded_scores, case.mask, k)
    return jax.tree.map(np.asarray, many)


def padded(graph: np.ndarray) -> Case:
    """The graph at the front of arrays of SIZE."""
    return spread(graph, whole(graph).scores, np.arange(len(graph)), SIZE)


def assert_says_the_truth(case: Case, ranking, row: int) -> None:
    """Everything a ranking says of its own draw is what the oracle computes for that list."""
    n_shown = min(case.at.size, ranking.shown.shape[1])
    assert ranking.shown[row].tolist() == [s < n_shown for s in range(ranking.shown.shape[1])]
    shown = tuple(np.searchsorted(case.at, ranking.order[row][:n_shown]).tolist())
    assert [int(case.at[i]) for i in shown] == ranking.order[row][:n_shown].tolist()
    assert len(set(shown)) == n_shown
    p = oracle.p_list(case.certain, shown)
    assert p > 0
    assert ranking.log_p_shown[row] == pytest.approx(np.log(p), rel=1e-12, abs=1e-12)
    expected = oracle.choices(case.certain, shown)
    assert ranking.choices[row].tolist() == expected + [1] * (len(ranking.choices[row]) - n_shown)
    among = np.zeros_like(ranking.certain[row])
    among[:n_shown, :n_shown] = case.certain[np.ix_(shown, shown)]
    np.testing.assert_array_equal(ranking.certain[row], among)
    rho = np.zeros(among.shape)
    rho[:n_shown, :n_shown] = np.triu(oracle.swap_weights(case.certain, shown), 1)
    np.testing.assert_allclose(ranking.memo[row], rho, rtol=1e-12)


def test_certain_orders_by_hand():
    scores = jnp.array([2.0, 0.0, 0.0])
    p = 1 / (1 + np.exp(-2))
    just_narrow, just_wide = p - 0.5 - 1e-6, p - 0.5 + 1e-6
    widths = jnp.array([[0, just_narrow, just_wide], [0, 0, 0], [0, 0, 0]])
    expected = [[False, True, False], [False, False, False], [False, False, False]]
    assert certain(scores, widths).tolist() == expected


@quick()
@given(f=arrays(float, SIZE, elements=numbers), CB=arrays(float, (SIZE, SIZE), elements=numbers))
def test_certain_orders_are_the_oracles(f, CB):
    CB = np.abs(CB) / 30
    with jax.enable_x64(True):
        found = np.asarray(certain(f, CB))
    margin = network.sigmoid(f[:, None] - f[None, :]) - CB - 0.5
    clear = np.abs(margin) > 1e-12  # nearer to 1/2 than that, rounding decides
    np.testing.assert_array_equal(found[clear], oracle_confidence.certain(f, CB)[clear])
    assert not np.diag(found).any()


@quick(max_examples=150)
@given(
    f=arrays(np.float32, SIZE, elements=st.floats(-3, 3, width=32)),
    CB=arrays(np.float32, (SIZE, SIZE), elements=st.floats(0, 1, width=32)),
)
def test_certain_orders_never_form_a_cycle(f, CB):
    for widths in (CB, 0 * CB):
        graph = np.asarray(certain(f, widths))
        assert oracle.is_acyclic(graph)
        assert np.all(f[:, None] > f[None, :], where=graph)


def test_not_even_negative_widths_form_a_cycle():
    """Definition 1 alone would: with widths of -.1 both orders of a tie lie above 1/2."""
    widths = np.full((2, 2), -0.1)
    assert oracle.is_acyclic(np.asarray(certain(jnp.zeros(2), jnp.asarray(widths))))
    assert not oracle.is_acyclic(oracle_confidence.certain(np.zeros(2), widths))


def test_certain_orders_need_not_be_transitive_even_with_the_widths_of_one_a():
    """sigma flattens while the width grows: 0 > 1 and 1 > 2 are certain, 0 > 2 is not."""
    way = confidence.kind("full")
    tangents = jnp.array([[2.0], [1.0], [0.0]])
    norms = confidence.pair_norms(way, way.init(1, 1.0), tangents, jnp.ones(3, bool))
    np.testing.assert_allclose(norms, [[0, 1, 2], [1, 0, 1], [2, 1, 0]], atol=1e-6)
    graph = np.asarray(certain(jnp.array([6.0, 3.0, 0.0]), 0.4 * norms))
    assert graph.tolist() == [[False, True, False], [False, False, True], [False] * 3]
    found = drawn(padded(graph), K, seed=0)
    assert set(lists_of(found.order, found.shown)) == {(0, 1, 2)}


@quick()
@given(case=cases(SIZE), seed=st.integers(0, 2**31))
def test_every_draw_says_the_truth_of_its_own_list(case, seed):
    ranking = drawn(case, K, seed)
    for row in range(FEW):
        assert_says_the_truth(case, ranking, row)


@quick()
@given(case=cases(SIZE), seed=st.integers(0, 2**31))
def test_no_draw_reverses_a_certain_pair_directly_or_along_a_path(case, seed):
    forced = oracle.forced(case.certain)
    ranking = drawn(case, SIZE, seed)
    for shown in lists_of(ranking.order, ranking.shown):
        slots = np.searchsorted(case.at, shown)
        assert not np.tril(forced[np.ix_(slots, slots)]).any()


def chain_with_a_loose_end() -> np.ndarray:
    """0 > 1 > 2 without 0 > 2, and 3 that nobody is certain of."""
    graph = np.zeros((4, 4), bool)
    graph[0, 1] = graph[1, 2] = True
    return graph


GRAPHS = {
    "figure 1, all of it": (FIGURE_1, 6),
    "figure 1, the top four": (FIGURE_1, K),
    "a chain and a loose end": (chain_with_a_loose_end(), K),
    "nothing certain": (np.zeros((5, 5), bool), K),
    "one best of all": (np.eye(5, dtype=bool)[[0] * 5].T & ~np.eye(5, dtype=bool), K),
    "fewer than k": (certain_graph(3, {(0, 1), (1, 2)}), K),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_draws_and_logged_propensities_equal_the_exact_enumeration(name):
    graph, k = GRAPHS[name]
    case = padded(graph)
    ranking = drawn(case, k, seed=1, n=MANY)
    lists = lists_of(ranking.order, ranking.shown)
    assert_drawn_as(oracle.lists(graph, k), lists)
    row_of = {shown: row for row, shown in enumerate(lists)}
    assert row_of.keys() == oracle.lists(graph, k).keys()
    for row in row_of.values():
        assert_says_the_truth(case, ranking, row)
    assert sum(np.exp(ranking.log_p_shown[row]) for row in row_of.values()) == pytest.approx(1)


def test_figure_1s_swap_weights_by_hand():
    ranking = drawn(whole(FIGURE_1), 6, seed=1, n=MANY)
    row = lists_of(ranking.order, ranking.shown).index((0, 1, 2, 3, 4, 5))
    assert ranking.choices[row].tolist() == [1, 2, 2, 1, 2, 1]
    expected = np.zeros((6, 6))
    expected[1, 2] = (1 / 4) / (1 / 8 + 1 / 4)  # the swapped list leaves one choice instead of two
    expected[2, 3] = expected[4, 5] = 1 / 2
    np.testing.assert_allclose(ranking.memo[row], expected, rtol=1e-12)


def test_neighbours_swap_weight_counts_unshown_documents():
    """rho = c / (c + c*): below 0 five are free; below 1 only four, since 0 holds 4 back."""
    graph = np.zeros((6, 6), bool)
    graph[0, 4] = True
    ranking = drawn(whole(graph), K, seed=1, n=MANY)
    row = next(r for r, o in enumerate(ranking.order) if o.tolist() == [0, 1, 2, 3])
    c, c_star = 5, 4
    assert ranking.choices[row][1] == c
    assert ranking.memo[row][0, 1] == pytest.approx(c / (c + c_star), rel=1e-12)
