"""The greedy order: best first, ties by chance."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from math import factorial, prod

import jax
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys, lists_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from olrank.explore import order

SIZE, K = 6, 4
FEW, MANY = 16, 20_000
quick = partial(settings, max_examples=40, deadline=None)


@jax.jit
def draws(keys, scores, mask):
    return jax.vmap(lambda key: order.draw_greedy(key, scores, mask, K))(keys)


def drawn(scores, mask=None, seed: int = 0, n: int = FEW):
    mask = np.ones(SIZE, bool) if mask is None else np.asarray(mask)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, draws(keys(seed, n), np.asarray(scores, float), mask))


def greedy_lists(scores, mask) -> dict[tuple[int, ...], float]:
    """Every top-K list in falling order of score; each tie is shuffled, then cut at K."""
    documents = [d for d in range(SIZE) if mask[d]]
    orders = [
        o
        for o in permutations(documents)
        if list(scores[list(o)]) == sorted(scores[documents])[::-1]
    ]
    found: dict[tuple[int, ...], float] = {}
    for o in orders:
        found[o[:K]] = found.get(o[:K], 0.0) + 1 / len(orders)
    return found


def test_a_tie_at_the_cut_is_drawn_uniformly_and_logged_exactly():
    scores = np.array([1.0, 5.0, 1.0, 3.0, 1.0, 0.0])
    found = drawn(scores, n=MANY)
    lists = lists_of(found.order, found.shown)
    pairs = list(permutations([0, 2, 4], 2))
    assert_drawn_as({(1, 3, a, b): 1 / (3 * 2) for a, b in pairs}, lists)
    assert found.choices[0].tolist() == [1, 1, 3, 2]
    np.testing.assert_allclose(found.log_p_shown, -np.log(3 * 2), rtol=1e-12)


def test_all_ties_are_drawn_uniformly():
    found = drawn(np.zeros(SIZE), n=MANY, seed=1)
    n_lists = factorial(SIZE) // factorial(SIZE - K)
    expected = {shown: 1 / n_lists for shown in permutations(range(SIZE), K)}
    assert_drawn_as(expected, lists_of(found.order, found.shown))
    assert found.choices[0].tolist() == [6, 5, 4, 3]
    np.testing.assert_allclose(found.log_p_shown, -np.log(prod([6, 5, 4, 3])), rtol=1e-12)


def test_zero_and_minus_zero_tie():
    found = drawn([0.0, -0.0, -1.0, -2.0, -3.0, -4.0], seed=2)
    assert set(lists_of(found.order, found.shown)) == {(0, 1, 2, 3), (1, 0, 2, 3)}
    np.testing.assert_allclose(found.log_p_shown, -np.log(2), rtol=1e-12)


@quick()
@given(
    scores=arrays(float, SIZE, elements=st.sampled_from([-1e30, -1.0, 0.0, 2.0, 1e30])),
    mask=arrays(bool, SIZE),
    seed=st.integers(0, 2**31),
)
def test_every_draw_is_best_first_and_logged_with_its_probability(scores, mask, seed):
    expected = greedy_lists(scores, mask)
    found = drawn(scores, mask, seed)
    for row, shown in enumerate(lists_of(found.order, found.shown)):
        log_p = found.log_p_shown[row]
        assert log_p == pytest.approx(np.log(expected[shown]), rel=1e-12, abs=1e-12)
        above = np.zeros((K, K), bool)
        n = len(shown)
        of_slot = scores[list(shown)]
        above[:n, :n] = of_slot[:, None] > of_slot[None, :]
        np.testing.assert_array_equal(found.certain[row], above)
