"""Production's order as a floor: what it keeps, and the propensity of the mixture."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys

from olrank.explore.floor import draw_with_floor, keep_order

N, K = 4, 3
MASK = np.array([True] * N + [False] * 2)  # padding must change nothing


def edges(*certain: tuple[int, int]) -> np.ndarray:
    found = np.zeros((N + 2, N + 2), bool)
    for above, below in certain:
        found[above, below] = True
    return found


RANKS = np.array([2, 0, 3, 1, 4, 5])  # production shows 1, 3, 0, 2
kept = jax.jit(partial(keep_order, k=K))
drawn = jax.jit(partial(draw_with_floor, k=K))
SCORES = np.zeros(N + 2)


def p_list(order, certain) -> float:
    """The chance of a list under the topological draw: 1 / available, slot by slot."""
    p, left = 1.0, set(range(N))
    for document in order:
        free = [d for d in left if not any(certain[other, d] for other in left)]
        if document not in free:
            return 0.0
        p /= len(free)
        left.remove(document)
    return p


def test_without_certain_orders_the_kept_list_is_productions():
    ranking = kept(edges(), RANKS, MASK)
    assert ranking.order.tolist() == [1, 3, 0]
    assert ranking.choices.tolist() == [4, 3, 2]
    assert float(ranking.log_p_shown) == pytest.approx(-np.log(4 * 3 * 2))


def test_a_certain_order_overrules_production_and_nothing_else_moves():
    assert kept(edges((2, 1)), RANKS, MASK).order.tolist() == [3, 0, 2]
    assert kept(edges((0, 1), (0, 3)), RANKS, MASK).order.tolist() == [0, 1, 3]
    assert kept(edges((0, 3)), RANKS, MASK).certain.tolist() == [
        [False, False, False],
        [False, False, True],
        [False, False, False],
    ]


def test_fewer_documents_than_slots_leave_slots_unshown():
    ranking = kept(edges(), RANKS, np.arange(N + 2) < 2)
    assert ranking.shown.tolist() == [True, True, False]
    assert ranking.order.tolist()[:2] == [1, 0]
    assert float(ranking.log_p_shown) == pytest.approx(-np.log(2))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("certain", [edges(), edges((0, 1), (2, 3))])
def test_lists_come_with_the_propensity_that_is_logged(share, certain):
    """False-alarm rate as in assert_drawn_as; the seed is fixed."""
    home = tuple(kept(certain, RANKS, MASK).order.tolist())
    expected = {
        order: share * p_list(order, certain) + (1 - share) * (order == home)
        for order in permutations(range(N), K)
    }
    expected = {order: p for order, p in expected.items() if p > 0}
    assert sum(expected.values()) == pytest.approx(1.0)
    given = [jnp.asarray(each) for each in (certain, SCORES, RANKS, share, MASK)]
    many = jax.jit(jax.vmap(lambda key: draw_with_floor(key, *given, K)))(keys(11, 4_000))
    outcomes = [tuple(order) for order in many.order.tolist()]
    for order, log_p in zip(outcomes[:300], many.log_p_shown.tolist(), strict=False):
        assert log_p == pytest.approx(np.log(expected[order]), abs=1e-5)
    assert_drawn_as(expected, outcomes)


def test_no_share_never_leaves_the_kept_list_and_says_it_was_sure_to_show_it():
    ranking = drawn(jax.random.key(0), edges(), SCORES, RANKS, jnp.asarray(0.0), MASK)
    assert (ranking.order.tolist(), float(ranking.log_p_shown)) == ([1, 3, 0], 0.0)
