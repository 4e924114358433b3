"""The order: Algorithm 1 line 8, Figure 1, by hand and by what must hold exactly."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from oracle import order
from oracle.cases import FIGURE_1, A, B, C, D, E, F, certain_graph, random_graph


def test_figure_1_can_be_shown_in_six_ways():
    lists = order.lists(FIGURE_1, 6)
    tops = {(A, B, C, D): 1 / 4, (A, B, D, C): 1 / 4, (A, C, B, D): 1 / 2}
    expected = {(*top, *end): p / 2 for top, p in tops.items() for end in [(E, F), (F, E)]}
    assert lists == pytest.approx(expected)
    assert order.choices(FIGURE_1, (A, B, C, D, E, F)) == [1, 2, 2, 1, 2, 1]
    assert order.choices(FIGURE_1, (A, C, B, D, E, F)) == [1, 2, 1, 1, 2, 1]


def test_figure_1s_swap_weights_by_hand():
    rho = order.swap_weights(FIGURE_1, (A, B, C, D, E, F))
    expected = np.zeros((6, 6))
    expected[B, C] = expected[C, B] = (1 / 4) / (1 / 8 + 1 / 4)
    expected[C, D] = expected[D, C] = 1 / 2
    expected[E, F] = expected[F, E] = 1 / 2
    np.testing.assert_allclose(rho, expected)


def test_figure_1_in_blocks_reverses_a_certain_pair():
    scores = np.arange(6, 0, -1.0)
    assert order.blocks(FIGURE_1, scores) == [[A], [B, C, D], [E, F]]
    lists = order.block_lists(FIGURE_1, scores, 6)
    assert len(lists) == 6 * 2
    assert FIGURE_1[B, D]
    p_reversed = sum(p for shown, p in lists.items() if shown.index(D) < shown.index(B))
    assert p_reversed == pytest.approx(1 / 2)
    top_three = order.block_lists(FIGURE_1, scores, 3)
    assert top_three == pytest.approx({(A, *two): 1 / 6 for two in permutations([B, C, D], 2)})


def test_a_block_stands_where_its_best_document_does():
    certain = np.zeros((3, 3), dtype=bool)
    certain[2, 0] = certain[2, 1] = True
    assert order.blocks(certain, np.array([0.0, -1.0, 5.0])) == [[2], [0, 1]]


def test_lists_of_the_topological_sort_are_a_distribution(rng):
    for n, k in [(1, 1), (2, 1), (4, 2), (5, 5), (5, 9)]:
        certain = random_graph(rng, n)
        lists = order.lists(certain, k)
        assert sum(lists.values()) == pytest.approx(1.0)
        assert sum(order.block_lists(certain, rng.normal(size=n), k).values()) == pytest.approx(1.0)
        for shown in permutations(range(n), min(n, k)):
            assert order.p_list(certain, shown) == pytest.approx(lists.get(shown, 0.0))


def test_an_order_can_be_forced_without_being_certain():
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    assert not chain[0, 2]
    assert order.forced(chain)[0, 2]
    assert order.lists(chain, 3) == {(0, 1, 2): 1.0}


def test_a_path_between_shown_documents_runs_through_shown_documents(rng):
    for _ in range(10):
        certain = random_graph(rng, 6, share=0.3)
        for shown in order.lists(certain, 4):
            inside = order.forced(certain[np.ix_(shown, shown)])
            assert np.array_equal(inside, order.forced(certain)[np.ix_(shown, shown)])


def test_swappable_means_that_the_swapped_list_is_possible(rng):
    for _ in range(10):
        certain = random_graph(rng, 6, share=0.3)
        for shown in order.lists(certain, 4):
            rho = order.swap_weights(certain, shown)
            for a in range(4):
                for b in range(a + 1, 4):
                    assert (rho[a, b] > 0) == order.swappable(certain, shown, a, b)


def test_neighbours_swap_weight_is_c_over_c_plus_c_star(rng):
    for _ in range(10):
        certain = random_graph(rng, 6, share=0.3)
        for shown in order.lists(certain, 4):
            for a in range(3):
                other = order.swapped(shown, a, a + 1)
                if order.swappable(certain, shown, a, a + 1):
                    c = order.choices(certain, shown)[a + 1]
                    c_star = order.choices(certain, other)[a + 1]
                    rho = order.swap_weight(certain, shown, a, a + 1)
                    assert rho == pytest.approx(c / (c + c_star))


def test_two_documents_are_tossed_for_or_not():
    open_pair, closed_pair = np.zeros((2, 2), dtype=bool), certain_graph(2, set())
    assert order.lists(open_pair, 2) == {(0, 1): 1 / 2, (1, 0): 1 / 2}
    assert order.swap_weight(open_pair, (0, 1), 0, 1) == 1 / 2
    assert order.lists(closed_pair, 2) == {(0, 1): 1.0}
    assert order.swap_weight(closed_pair, (0, 1), 0, 1) == 0.0


def test_draws_follow_the_enumeration(rng):
    lists = order.lists(FIGURE_1, 3)
    n = 2000
    counts = dict.fromkeys(lists, 0)
    for _ in range(n):
        counts[order.draw(rng, FIGURE_1, 3)] += 1
    for shown, p in lists.items():  # 5 sigma, 3 lists: false alarms in 2e-6 of seeds
        assert abs(counts[shown] - n * p) < 5 * (n * p * (1 - p)) ** 0.5
