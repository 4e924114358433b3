"""Epsilon-greedy: the chance of every list by exact enumeration."""

from __future__ import annotations

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from olrank.rankers.epsilon_greedy import _draw

N_DRAWS = 20_000
FALSE_ALARM = 1e-6  # of each chi-square test; the seeds are fixed
SCORES = [0.3, 1.5, 0.3, -2.0, 9.0]  # two ties; the last is padding
MASK = jnp.array([True, True, True, True, False])
draws = jax.jit(jax.vmap(_draw, (0, None, None, None, None)), static_argnums=3)


def p_list(shown, epsilon) -> float:
    """Slot by slot: epsilon for a random document left, 1 - epsilon for one of the best left."""
    p = 1.0
    for slot, document in enumerate(shown):
        left = [i for i in range(4) if i not in shown[:slot]]
        best = [i for i in left if SCORES[i] == max(SCORES[j] for j in left)]
        p *= epsilon / len(left) + (1 - epsilon) * (document in best) / len(best)
    return p


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_lists_and_their_chances_are_those_of_enumeration(epsilon, k):
    expected = {shown: p_list(shown, epsilon) for shown in permutations(range(4), k)}
    assert sum(expected.values()) == pytest.approx(1)
    keys = jax.random.split(jax.random.key(k), N_DRAWS)
    ranking = draws(keys, jnp.array(SCORES), MASK, k, jnp.asarray(epsilon))
    lists, of_draw, counts = np.unique(
        ranking.order, axis=0, return_inverse=True, return_counts=True
    )
    seen = {tuple(one.tolist()): count for one, count in zip(lists, counts, strict=True)}
    possible = {shown: p for shown, p in expected.items() if p > 0}
    assert seen.keys() <= possible.keys()
    for draw in range(200):
        p = possible[tuple(ranking.order[draw].tolist())]
        assert float(ranking.log_p_shown[draw]) == pytest.approx(np.log(p), abs=1e-5)
    if len(possible) > 1:
        wanted = np.array(list(possible.values())) * N_DRAWS
        observed = np.array([seen.get(shown, 0) for shown in possible])
        rare = wanted < 5
        wanted = np.append(wanted[~rare], wanted[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
        filled = wanted > 0
        assert chisquare(observed[filled], wanted[filled]).pvalue > FALSE_ALARM


def test_epsilon_zero_is_greedy_and_one_is_uniform():
    assert p_list((1, 0, 2, 3), 0.0) == 1 / 2  # only the tie is left to chance
    assert p_list((3, 0, 1, 2), 1.0) == pytest.approx(1 / 24)
    keys = jax.random.split(jax.random.key(0), 200)
    greedy = draws(keys, jnp.array(SCORES), MASK, 4, jnp.asarray(0.0))
    assert set(map(tuple, greedy.order.tolist())) == {(1, 0, 2, 3), (1, 2, 0, 3)}
    np.testing.assert_allclose(greedy.log_p_shown, np.log(1 / 2), rtol=1e-6)
    uniform = draws(keys, jnp.array(SCORES), MASK, 4, jnp.asarray(1.0))
    np.testing.assert_allclose(uniform.log_p_shown, np.log(1 / 24), rtol=1e-5)


def test_a_list_of_fewer_than_k_shows_all_and_nothing_more():
    ranking = _draw(jax.random.key(1), jnp.array(SCORES), MASK, 6, jnp.asarray(0.5))
    assert ranking.shown.tolist() == [True] * 4 + [False] * 2
    assert sorted(ranking.order[:4].tolist()) == [0, 1, 2, 3]
    p = p_list(tuple(ranking.order[:4].tolist()), 0.5)
    assert float(ranking.log_p_shown) == pytest.approx(np.log(p), abs=1e-5)
    assert ranking.choices.tolist() == [4, 3, 2, 1, 1, 1]
